//! Colours of states, so that trouble is seen before it is read.

use console::Style;

/// States by colour: healthy; waiting or stopped by an operator; with lost work.
const GOOD: [&str; 5] = ["active", "committed", "completed", "reported", "running"];
const NEUTRAL: [&str; 7] = ["awaiting_model", "expired", "expires", "paused", "quarantined", "stopped", "training"];
const BAD: [&str; 5] = ["abandoned", "failed", "rejected", "revoked", "trouble"];

/// Colours the states among the words of a text. Headings have capital letters, so they stay.
pub(super) fn paint(text: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let mut painted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|letter| !is_word(letter)).unwrap_or(from.len()));
        painted.push_str(before);
        match style(word) {
            Some(style) => painted.push_str(&style.force_styling(true).apply_to(word).to_string()),
            None => painted.push_str(word),
        }
        rest = after;
    }
    painted + rest
}

fn style(word: &str) -> Option<Style> {
    if GOOD.contains(&word) {
        Some(Style::new().green())
    } else if NEUTRAL.contains(&word) {
        Some(Style::new().yellow())
    } else if BAD.contains(&word) {
        Some(Style::new().red())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_colours_and_names_do_not() {
        let painted = paint("NAME  STATE\nrunning-shoes  running\nb  abandoned (x)\n");
        assert_eq!(
            painted,
            "NAME  STATE\nrunning-shoes  \u{1b}[32mrunning\u{1b}[0m\nb  \u{1b}[31mabandoned\u{1b}[0m (x)\n"
        );
        assert_eq!(paint("trouble: no driver"), "\u{1b}[31mtrouble\u{1b}[0m: no driver");
        assert_eq!(console::strip_ansi_codes(&painted), "NAME  STATE\nrunning-shoes  running\nb  abandoned (x)\n");
    }
}
