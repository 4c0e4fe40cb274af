//! Text labels and their classes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tributary_protocol::text::visible;

/// Most labels of a table.
pub(super) const LABELS_MAX: usize = 10_000;
/// Labels that a message names.
const SHOWN_MAX: usize = 12;

/// Characters of a field that a message shows.
const SHOWN_CHARS_MAX: usize = 80;

/// A field as a message shows it.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Labels by class: the first is class 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LabelMap(Vec<String>);

/// The different labels of a table, and which example has which.
#[derive(Debug, Default)]
pub(super) struct Seen {
    numbers: BTreeMap<String, usize>,
    texts: Vec<String>,
    /// The line in which each label stands first.
    lines: Vec<u64>,
    examples: Vec<usize>,
}

impl LabelMap {
    pub(crate) fn new(labels: Vec<String>) -> Self {
        Self(labels)
    }

    /// The labels in alphabetical order.
    pub(crate) fn in_order(texts: &[String]) -> Self {
        let mut labels = texts.to_vec();
        labels.sort();
        Self(labels)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn class(&self, label: &str) -> Option<u32> {
        self.0.iter().position(|known| known == label).and_then(|class| u32::try_from(class).ok())
    }

    /// As the value of `--label-map`, one word of the shell.
    pub(crate) fn option(&self) -> String {
        let labels = visible(&self.0.join(","));
        let is_plain = labels.chars().all(|letter| letter.is_alphanumeric() || "_-.,".contains(letter));
        if is_plain { labels } else { format!("'{}'", labels.replace('\'', "'\\''")) }
    }
}

impl fmt::Display for LabelMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self
            .0
            .iter()
            .take(SHOWN_MAX)
            .enumerate()
            .map(|(class, label)| format!("{} = {class}", shortened(label)))
            .collect();
        let more = if self.0.len() > SHOWN_MAX { ", .." } else { "" };
        write!(formatter, "{}{more}", visible(&shown.join(", ")))
    }
}

impl Seen {
    /// Adds the label of the next example; `false`: it is one label too many.
    pub(super) fn push(&mut self, text: &str, line: u64) -> bool {
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None if self.texts.len() >= LABELS_MAX => return false,
            None => {
                self.numbers.insert(text.to_owned(), self.texts.len());
                self.texts.push(text.to_owned());
                self.lines.push(line);
                self.texts.len() - 1
            }
        };
        self.examples.push(number);
        true
    }

    /// In the order of their first occurrence.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    pub(super) fn lines(&self) -> &[u64] {
        &self.lines
    }

    /// The class of each example, from the classes of [`Self::texts`].
    pub(super) fn by_example(&self, classes: &[u32]) -> Vec<u32> {
        self.examples.iter().map(|number| classes[*number]).collect()
    }
}
