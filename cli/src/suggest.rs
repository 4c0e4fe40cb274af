//! Did you mean: the known name that is nearest to a mistyped one.

use crate::error::{Failure, exit};

/// A name may differ from a mistyped one by so much of its length.
const LETTERS_PER_MISTAKE: usize = 3;

/// A name that nothing has.
#[derive(Debug, thiserror::Error)]
#[error("there is no {what} {wanted:?}")]
pub(crate) struct NoSuchName {
    /// `job`, `population`, ..
    what: &'static str,
    wanted: String,
    hint: String,
}

impl NoSuchName {
    /// `list` is the command that shows the names.
    pub(crate) fn new(what: &'static str, wanted: &str, nearest: Option<&str>, list: &str) -> Self {
        let hint = match nearest {
            Some(name) => format!("did you mean {name}? {list} shows what there is"),
            None => format!("{list} shows what there is"),
        };
        Self { what, wanted: wanted.to_owned(), hint }
    }
}

impl Failure for NoSuchName {
    fn exit_code(&self) -> u8 {
        exit::NOT_FOUND
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
}

/// The nearest of the known names, if it is near enough.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| strsim::damerau_levenshtein(&wanted.to_lowercase(), &name.to_lowercase());
    let allowed = wanted.chars().count().div_ceil(LETTERS_PER_MISTAKE);
    known
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slip_is_found_and_another_name_is_not() {
        let known = ["slow", "digits", "text"];
        assert_eq!(nearest("slwo", known), Some("slow"));
        assert_eq!(nearest("Digit", known), Some("digits"));
        assert_eq!(nearest("mnist", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
