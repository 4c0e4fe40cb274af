//! Text of devices and operators that people see: nothing in it may act on a terminal or turn its neighbours around.

/// Whether people see a character and it leaves the others as they are. Not visible are controls (C0, C1), line and
/// paragraph separators, marks, embeddings and overrides of the writing direction, and characters without width.
pub fn is_visible(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether [`is_visible`] holds of every character.
pub fn is_text(text: &str) -> bool {
    text.chars().all(is_visible)
}

/// The text with a replacement character (U+FFFD) for each character that is not visible.
pub fn visible(text: &str) -> String {
    text.chars().map(|letter| if is_visible(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_or_turns_text_around_is_replaced() {
        for text in [
            "\u{1b}[2J",
            "a\u{7}",
            "a\nb",
            "\u{9b}2J",
            "\u{7f}",
            "a\u{202e}b",
            "\u{2066}",
            "\u{200f}",
            "\0",
            "\u{85}",
            "\u{200b}",
            "\u{2028}",
            "\u{feff}",
        ] {
            assert!(!is_text(text), "{text:?}");
            assert!(is_text(&visible(text)), "{text:?}");
        }
        for text in ["", "Größe 3", "a\u{301}", "Ünal 北京 مرحبا שלום नमस्ते 🙂 -_.,:/()"] {
            assert_eq!((is_text(text), visible(text)), (true, text.to_owned()));
        }
    }
}
