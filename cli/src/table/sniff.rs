//! Finds the delimiter and the header of a table in its first lines.

use super::columns::{is_missing, number};

/// Lines that are looked at.
const LINES: usize = 10;
/// The delimiters of common programs. A comma comes last: in tables with another delimiter, it is in texts and numbers.
const DELIMITERS: [u8; 4] = *b"\t;|,";
/// A header of numbers (0, 1, 2, ..), which pandas writes for columns without names, has at least this many: fewer may
/// well be an example.
const NUMBERED_COLUMNS_MIN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sniffed {
    pub(super) delimiter: u8,
    pub(super) has_header: bool,
}

impl Sniffed {
    /// Looks at the beginning of a table, as far as it was not told.
    pub(super) fn of(begin: &[u8], delimiter: Option<u8>, has_header: Option<bool>) -> Self {
        let delimiter = delimiter.unwrap_or_else(|| delimiter_of(begin));
        Self { delimiter, has_header: has_header.unwrap_or_else(|| header_of(begin, delimiter)) }
    }

    /// What was found out that may surprise.
    pub(super) fn notes(&self, delimiter: Option<u8>, has_header: Option<bool>) -> Vec<String> {
        let mut notes = Vec::new();
        if delimiter.is_none() && self.delimiter != b',' {
            let name = if self.delimiter == b'\t' { "tab".into() } else { char::from(self.delimiter).to_string() };
            notes.push(format!("the fields are separated by {name:?} (--delimiter)"));
        }
        if has_header.is_none() && !self.has_header {
            notes.push("the first line is an example, not names of columns (--header)".into());
        }
        notes
    }
}

fn delimiter_of(begin: &[u8]) -> u8 {
    let text = String::from_utf8_lossy(begin);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LINES).collect();
    let is_regular = |delimiter: &&u8| {
        let mut counts = lines.iter().map(|line| count_unquoted(line, char::from(**delimiter)));
        let first = counts.next().unwrap_or(0);
        first > 0 && counts.all(|count| count == first)
    };
    DELIMITERS.iter().find(is_regular).copied().unwrap_or(b',')
}

fn count_unquoted(line: &str, delimiter: char) -> usize {
    let mut quoted = false;
    line.chars()
        .filter(|letter| {
            quoted ^= *letter == '"';
            *letter == delimiter && !quoted
        })
        .count()
}

/// A first line without any number is a header, and so is 0, 1, 2, ..
fn header_of(begin: &[u8], delimiter: u8) -> bool {
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).trim(csv::Trim::All).from_reader(begin);
    let mut first = csv::StringRecord::new();
    if !matches!(reader.read_record(&mut first), Ok(true)) {
        return false;
    }
    let is_numbered = first.len() >= NUMBERED_COLUMNS_MIN
        && first.iter().take(first.len() - 1).enumerate().all(|(column, text)| *text == column.to_string());
    is_numbered || !first.iter().any(|text| number(text).is_some() || (!text.is_empty() && is_missing(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiter_and_header_are_found() {
        for (text, delimiter, has_header) in [
            ("x,y\n1,2\n", b',', true),
            ("x;y\n1,5;2\n", b';', true),
            ("1\t2\n3\t4\n", b'\t', false),
            ("\"a;b\",c\n1,2\n", b',', true),
            ("1.5,2,cat\n3,4,dog\n", b',', false),
            ("0,1,2,3,target\n5,6,7,8,a\n", b',', true),
            ("0,1\n1,0\n", b',', false),
            (",x,y\n0,1,2\n", b',', true),
            ("NaN,x\n1,2\n", b',', false),
            ("", b',', false),
        ] {
            assert_eq!(Sniffed::of(text.as_bytes(), None, None), Sniffed { delimiter, has_header }, "{text:?}");
        }
        let told = Sniffed::of(b"1,2\n", Some(b';'), Some(true));
        assert_eq!(told, Sniffed { delimiter: b';', has_header: true });
    }
}
