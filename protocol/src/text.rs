//! Text of devices and operators that people see: nothing in it may act on a terminal or turn its neighbours around.

/// Whether a character is shown as itself: no control character (C0, DEL, C1), and none that changes the direction of
/// the text around it (Unicode's bidirectional embeddings, overrides and isolates; UTS 55, section 3).
#[must_use]
pub fn is_visible(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether [`is_visible`] holds of every character.
#[must_use]
pub fn is_text(text: &str) -> bool {
    text.chars().all(is_visible)
}

/// The text with a replacement character (U+FFFD) for each character that is not visible.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().map(|letter| if is_visible(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_or_turns_text_around_is_replaced() {
        for text in ["\u{1b}[2J", "a\u{7}", "a\nb", "\u{9b}2J", "\u{7f}", "a\u{202e}b", "\u{2066}", "\u{200f}", "\0"] {
            assert!(!is_text(text), "{text:?}");
            assert!(is_text(&visible(text)), "{text:?}");
        }
        for text in ["", "Größe 3", "日本語", "a\u{301}", "👩\u{200d}🔬"] {
            assert_eq!((is_text(text), visible(text)), (true, text.to_owned()));
        }
    }
}
