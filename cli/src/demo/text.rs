//! A play as a task: the next character, for clients that are its roles.
//!
//! The file `input.txt` has speeches: a line `NAME:`, the lines of the speech, an empty line. Each client is one role,
//! so clients differ by how their roles speak, as in McMahan et al. 2017 (<https://arxiv.org/abs/1602.05629>, section
//! 3). Or each client is a block of the text, where all speak alike.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tributary_client::examples::{ExamplesError, MemoryExamples, Targets};

use super::data::DemoData;
use crate::error::Failure;

/// Characters of an example; for each, the next one is to be predicted. McMahan et al. unroll as many.
pub(crate) const CHARACTERS: usize = 80;
/// A line end, and the printable characters of ASCII. Others count as the last one, `~`.
pub(crate) const VOCABULARY: usize = 96;
/// The file within --data-dir.
const FILE: &str = "input.txt";
/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;
/// One of this many examples of a client is held out.
const HELD_OUT_EVERY: usize = 10;
/// Most examples of a client: the largest roles speak a hundred times as much as most.
const EXAMPLES_MAX: usize = 50;

/// Who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// A role of the play. The roles with the most text take part.
    Roles,
    /// A block of the text.
    Blocks,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {found} of its roles have {CHARACTERS} characters or more, for {wanted} clients", path.display())]
    Roles { path: PathBuf, found: usize, wanted: usize },
    #[error("{}: {bytes} characters are too few for {clients} clients", path.display())]
    Short { path: PathBuf, bytes: usize, clients: usize },
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

impl Failure for TextError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::File { .. } => "--data-dir names the folder of a text named input.txt",
            Self::Roles { .. } => "a role begins with a line such as `First Citizen:`; or choose fewer --clients",
            Self::Short { .. } => "choose fewer --clients",
            Self::Examples(_) => return None,
        };
        Some(hint.into())
    }
}

/// Reads the text of a folder for this many clients.
pub(crate) fn load(folder: &Path, split: Split, clients: usize) -> Result<DemoData, TextError> {
    let path = folder.join(FILE);
    let failed = |source| TextError::File { path: path.clone(), source };
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(failed)?;
    io::Read::read_to_string(&mut io::Read::take(file, BYTES_MAX), &mut text).map_err(failed)?;
    let parts = match split {
        Split::Roles => {
            let mut roles = roles(&text);
            roles.retain(|role| role.len() > CHARACTERS);
            // Stable: roles of equal length stay in the order of their names.
            roles.sort_by_key(|role| std::cmp::Reverse(role.len()));
            if roles.len() < clients {
                return Err(TextError::Roles { path, found: roles.len(), wanted: clients });
            }
            roles.truncate(clients);
            roles
        }
        Split::Blocks => {
            let tokens = tokens(&text);
            let length = tokens.len() / clients.max(1);
            if length <= CHARACTERS {
                return Err(TextError::Short { path, bytes: tokens.len(), clients });
            }
            tokens.chunks_exact(length).take(clients).map(<[u8]>::to_vec).collect()
        }
    };
    Ok(examples(&parts)?)
}

/// What each role says, by the names of the roles.
fn roles(text: &str) -> Vec<Vec<u8>> {
    let mut roles: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for speech in text.split("\n\n") {
        if let Some((name, words)) = speech.trim_start().split_once(":\n") {
            let role = roles.entry(name).or_default();
            role.extend(tokens(words));
            role.extend(tokens("\n"));
        }
    }
    roles.into_values().collect()
}

fn tokens(text: &str) -> Vec<u8> {
    let token = |character: char| match character {
        '\n' => 0,
        ' '..='~' => character as u8 - b' ' + 1,
        _ => b'~' - b' ' + 1,
    };
    text.chars().map(token).collect()
}

fn examples(parts: &[Vec<u8>]) -> Result<DemoData, ExamplesError> {
    let mut all = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    let mut split = Vec::with_capacity(parts.len());
    for part in parts {
        let first = all[0].0.len() / CHARACTERS;
        for example in 0..((part.len() - 1) / CHARACTERS).min(EXAMPLES_MAX) {
            let from = example * CHARACTERS;
            let (inputs, next) = &mut all[usize::from(example % HELD_OUT_EVERY == HELD_OUT_EVERY - 1)];
            inputs.extend(part[from..][..CHARACTERS].iter().map(|token| f32::from(*token)));
            next.extend(part[from + 1..][..CHARACTERS].iter().map(|token| u32::from(*token)));
        }
        split.push((first..all[0].0.len() / CHARACTERS).collect());
    }
    let [train, test] = all.map(|(inputs, next)| MemoryExamples::new(vec![CHARACTERS], inputs, Targets::Classes(next)));
    Ok(DemoData { train: train?, test: test?, split: Some(split) })
}

#[cfg(test)]
mod tests {
    use tributary_client::examples::Examples;

    use super::*;

    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        folder
    }

    #[test]
    fn a_client_is_a_role_and_learns_the_next_character() {
        let long = "abc ".repeat(300);
        let text = format!("ANNA:\n{long}\n\nBEN:\nHe said: no.\n\nCLARA:\n{}\n\nANNA:\nyes\n", "xyz ".repeat(40));
        let folder = folder(&text);
        let data = load(folder.path(), Split::Roles, 2).unwrap();
        let split = data.split.unwrap();
        // Anna has 15 examples of which one is held out, Clara has two; Ben has too few characters.
        assert_eq!((split[0].len(), split[1].len(), data.test.len()), (14, 2, 1));
        let batch = data.train.batch(&[0]).unwrap();
        assert_eq!(batch.inputs[..4], ['a', 'b', 'c', ' '].map(|letter| f32::from(letter as u8 - b' ' + 1)));
        let Targets::Classes(next) = batch.targets else { panic!("classes") };
        assert_eq!(next[..4], ['b', 'c', ' ', 'a'].map(|letter| letter as u32 - 31));
        let refused = load(folder.path(), Split::Roles, 3).expect_err("Ben").to_string();
        assert!(refused.contains("2 of its roles"), "{refused}");
    }

    #[test]
    fn blocks_share_the_text_and_odd_characters_have_a_class() {
        let folder = folder(&"né\n".repeat(400));
        let data = load(folder.path(), Split::Blocks, 4).unwrap();
        assert_eq!(data.split.unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3, 3]);
        assert!(data.train.batch(&[0]).unwrap().inputs.iter().all(|token| (0.0..VOCABULARY as f32).contains(token)));
        assert!(matches!(load(folder.path(), Split::Blocks, 400), Err(TextError::Short { .. })));
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(folder.path(), Split::Blocks, 1).expect_err("no file");
        assert!(error.to_string().contains("input.txt") && error.hint().is_some(), "{error}");
    }
}
