//! Pairs of names and values on the command line and in files.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// `NAME=VALUE`.
pub(super) fn parse_attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    check_attribute(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn attribute_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let table = BTreeMap::<String, String>::deserialize(deserializer)?;
    table.iter().try_for_each(|(name, value)| check_attribute(name, value)).map_err(D::Error::custom)?;
    Ok(table.into_iter().collect())
}

/// `JOB_COLUMN=TABLE_COLUMN`.
pub(crate) fn parse_names(text: &str) -> Result<(String, String), String> {
    parse_attribute(text).map_err(|_| "it must be JOB_COLUMN=TABLE_COLUMN".into())
}

fn check_attribute(name: &str, value: &str) -> Result<(), &'static str> {
    if name.is_empty() || value.is_empty() { Err("neither name nor value may be empty") } else { Ok(()) }
}
