//! The Python that `scripts/test` makes, with the packages of other people that tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An interpreter that can import these modules; none where there is none (under CI that is a failure).
pub(crate) fn python(modules: &str) -> Option<PathBuf> {
    let named = std::env::var_os("TRIBUTARY_TEST_PYTHON").map(PathBuf::from);
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-python/bin/python");
    let python = named.unwrap_or_else(|| PathBuf::from(made));
    if has_module(&python, modules) {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} cannot import {modules}", python.display());
    eprintln!("not tried: {} is no Python with {modules}; scripts/test makes one", python.display());
    None
}

/// Whether an interpreter can import these modules.
pub(crate) fn has_module(python: &Path, modules: &str) -> bool {
    let imports = Command::new(python).args(["-c", &format!("import {modules}")]).output();
    imports.is_ok_and(|output| output.status.success())
}
