//! The programs that the README may use, and a stand-in for cargo.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Programs of every Unix that the README uses. The rest of its commands are built into the shell.
const SYSTEM: [&str; 3] = ["awk", "cat", "head"];
/// The program that the README installs.
const PROGRAM: &str = "tributary";

/// A folder that is the whole `PATH` of a reader.
pub(super) struct Tools(TempDir);

impl Tools {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in SYSTEM {
            symlink(find(name), folder.path().join(name)).unwrap();
        }
        let cargo = folder.path().join("cargo");
        fs::write(&cargo, stand_in_for_cargo(folder.path())).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    pub(super) fn path(&self) -> String {
        self.0.path().to_str().unwrap().to_owned()
    }

    /// Installs the program for a reader of another page.
    pub(super) fn install(&self) {
        symlink(env!("CARGO_BIN_EXE_tributary"), self.0.path().join(PROGRAM)).unwrap();
    }

    /// Whether a reader has installed the program.
    pub(super) fn has_installed(&self) -> bool {
        self.0.path().join(PROGRAM).exists()
    }
}

/// Building from source takes minutes, and other tests of the repository do it: here the binary under test is run, or
/// put where `cargo install` would put it.
fn stand_in_for_cargo(folder: &Path) -> String {
    let (program, bin) = (env!("CARGO_BIN_EXE_tributary"), folder.join(PROGRAM));
    // Cargo builds the examples with the tests of the workspace.
    let smallest = Path::new(program).with_file_name("examples").join("smallest");
    format!(
        "#!/bin/bash
case \"$*\" in
    'run --release -- demo' | 'run --release -- demo '*) shift 3; exec '{program}' \"$@\" ;;
    'install --locked --path cli') exec {ln} -s '{program}' '{bin}' ;;
    'run --release -p tributary-client --example smallest -- '*) shift 7; exec '{smallest}' \"$@\" ;;
    *) echo \"the test of the README does not know: cargo $*\"; exit 64 ;;
esac
",
        ln = find("ln").display(),
        bin = bin.display(),
        smallest = smallest.display()
    )
}

fn find(name: &str) -> PathBuf {
    let candidates = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
    candidates.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is missing"))
}
