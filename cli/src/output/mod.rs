//! The output of a command: tables and sentences for people, one JSON object per line for programs.

mod colour;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use tributary_protocol::text;

use crate::error::CliError;

#[derive(Clone, Debug)]
pub struct Output {
    pub sink: Sink,
    /// JSON lines instead of text.
    pub json: bool,
    /// Columns of the terminal. `None`: standard output is no terminal, and lines are not wrapped.
    pub width: Option<u16>,
    /// Whether standard output is a terminal that shows colours, and nothing (NO_COLOR) forbids them.
    pub colours: bool,
    /// Whether standard error is a terminal, where a progress bar makes sense.
    pub interactive: bool,
    /// The time of the command, in milliseconds since 1970; "ago" is relative to it.
    pub now_ms: i64,
}

#[derive(Clone, Debug)]
pub enum Sink {
    Stdout,
    /// Kept in memory, for tests.
    Kept(Arc<Mutex<String>>),
}

impl Output {
    /// Asks the terminal for its width once.
    pub fn of_process(json: bool, now_ms: i64) -> Self {
        let width = console::Term::stdout().size_checked().map(|(_rows, columns)| columns);
        let width = width.filter(|_| io::stdout().is_terminal());
        let colours = width.is_some() && console::colors_enabled() && !json;
        Self { sink: Sink::Stdout, json, width, colours, interactive: io::stderr().is_terminal() && !json, now_ms }
    }

    /// An output that is no terminal and keeps what is printed, for tests.
    pub fn kept(json: bool) -> (Self, Arc<Mutex<String>>) {
        let printed = Arc::default();
        let sink = Sink::Kept(Arc::clone(&printed));
        (Self { sink, json, width: None, colours: false, interactive: false, now_ms: 0 }, printed)
    }

    /// Prints one object: as a JSON line, or as `text` for people.
    pub fn object<T: Serialize>(&self, object: &T, text: impl FnOnce() -> String) -> Result<(), CliError> {
        self.write(&if self.json { json_line(object) } else { text() })
    }

    /// Prints a list: one JSON line per item, or a table.
    pub fn list<T: Serialize>(
        &self,
        items: &[T],
        header: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), CliError> {
        if self.json {
            return items.iter().try_for_each(|item| self.write(&json_line(item)));
        }
        self.write(&self.coloured(table(header, items.iter().map(row), self.width)))
    }

    /// The text with states in colour, where colours are shown.
    pub fn coloured(&self, text: String) -> String {
        if self.colours { colour::paint(&text) } else { text }
    }

    /// Prints an error and its hint to standard error.
    pub fn error(&self, error: &CliError) {
        if self.json {
            let object = serde_json::json!({
                "event": "error", "message": error.to_string(), "hint": error.hint(), "exit_code": error.exit_code(),
                "problem": error.problem(),
            });
            eprintln!("{object}");
            return;
        }
        let label = console::Style::new().for_stderr().red().bold();
        eprintln!("{} {}", label.apply_to("error:"), printable(&error.to_string()));
        if let Some(hint) = error.hint() {
            let label = console::Style::new().for_stderr().cyan();
            eprintln!("{} {}", label.apply_to("hint:"), printable(&hint));
        }
    }

    pub fn note_if_cut(&self, is_cut: bool) {
        if is_cut {
            self.note("there are more: --limit 0 shows all");
        }
    }

    /// Prints to standard error what is no part of the result, for example that a download begins. Silent with --json.
    pub fn note(&self, text: &str) {
        if !self.json {
            eprintln!("{}", printable(text));
        }
    }

    fn write(&self, text: &str) -> Result<(), CliError> {
        match &self.sink {
            Sink::Stdout => write_stdout(text).map_err(CliError::Output),
            Sink::Kept(kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(text);
                kept.push('\n');
                Ok(())
            }
        }
    }
}

/// Rows below their headings without lines, so that `awk` can split them. Cells wrap at the given width.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    if !header.is_empty() {
        table.set_header(header.iter().map(|name| name.to_uppercase()));
    }
    // Some cells are texts of devices, which must not act on the operator's terminal. A cell may have lines.
    let visible = |cell: String| cell.lines().map(text::visible).collect::<Vec<_>>().join("\n");
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(visible)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Names and values, one pair per line.
pub fn fields(pairs: &[(&str, String)], width: Option<u16>) -> String {
    table(&[], pairs.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]), width)
}

/// A JSON line with its kind in the first member, for commands that print lines of several kinds.
#[derive(Debug, Serialize)]
pub struct TaggedLine<'a, T> {
    /// `round`, `job`, ..
    pub event: &'static str,
    #[serde(flatten)]
    pub object: &'a T,
}

/// Text of which nothing acts on the terminal. It may quote a server that is no coordinator. Lines stay lines.
fn printable(text: &str) -> String {
    text.split('\n').map(text::visible).collect::<Vec<_>>().join("\n")
}

fn json_line<T: Serialize>(object: &T) -> String {
    serde_json::to_string(object).expect("the API's types have string keys and no failing serialisers")
}

fn write_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let long = "a label that is much longer than the terminal is wide, so that it has to wrap somewhere";
        vec![vec!["token_1".into(), long.into()], vec!["token_2".into(), "short".into()]]
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let text = table(&["id", "label"], rows(), Some(40));
        assert!(text.starts_with("ID"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().count() > 3);
    }

    #[test]
    fn a_table_into_a_pipe_has_one_line_per_row() {
        let text = table(&["id", "label"], rows(), None);
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("short"));
    }

    #[test]
    fn nothing_in_a_table_acts_on_the_terminal() {
        let clears = "\u{1b}[2J\u{1b}]52;c;AAAA\u{7}\u{9b}2J\u{202e}gpj";
        for text in
            [table(&["id"], [vec![clears.to_owned()]], Some(40)), fields(&[("platform", clears.to_owned())], None)]
        {
            assert!(text.lines().all(text::is_text), "{text:?}");
        }
    }

    #[test]
    fn fields_are_two_columns() {
        let text = fields(&[("name", "digits".into()), ("state", "running".into())], None);
        assert_eq!(text, "name   digits\nstate  running");
    }

    #[test]
    fn an_event_begins_with_its_kind() {
        let line = json_line(&TaggedLine { event: "round", object: &serde_json::json!({"accuracy": 1, "number": 3}) });
        assert_eq!(line, r#"{"event":"round","accuracy":1,"number":3}"#);
    }
}
