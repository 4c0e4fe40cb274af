//! `tributary completions` and `tributary man`: what a shell and `man` know of this program.

use std::io;
use std::path::Path;

use clap_complete::Shell;

use crate::error::CliError;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell, mut command: clap::Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tributary", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script).map_err(CliError::Output)
}

/// Writes a page for the program and each of its commands.
pub(crate) fn manual(folder: &Path, command: clap::Command) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(CliError::file("create", folder))?;
    clap_mangen::generate_to(command, folder).map_err(CliError::file("write", folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::CommandLine;
    use clap::CommandFactory;

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        manual(&folder.path().join("man1"), CommandLine::command()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("man1/tributary-job-create.1")).unwrap();
        assert!(page.contains("dry"), "{page}");
    }
}
