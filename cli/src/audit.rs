//! `tributary audit`: the audit log, and whether it is whole.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use serde::Serialize;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{AuditQuery, AuditRow, ChainCheck, ChainError, PageQuery};
use tributary_protocol::state::AuditAction;

use crate::api::{Api, collect};
use crate::error::{CliError, Failure};
use crate::format::{count, relative};
use crate::options::{GlobalArgs, LimitArgs, words};
use crate::output::Output;
use crate::units::Moment;

/// Longest line of an export in bytes: labels, details and names are shorter.
const LINE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Lists the newest entries first. The enrolments with one token on one day (UTC) are one line.
    List {
        #[command(flatten)]
        search: SearchArgs,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Writes the whole log as JSON lines, oldest first.
    Export {
        /// The file to write [default: standard output]. An existing file is replaced.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Checks that no entry was changed, removed or moved, and prints the newest hash. Kept elsewhere, this hash shows
    /// later whether entries were removed at the end or all were replaced: see --head.
    Verify {
        /// An exported file [default: the log of the coordinator]; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// A hash that was the newest one at some time: an entry must have it.
        #[arg(long, value_name = "HASH")]
        head: Option<Sha256Hash>,
    },
}

/// Which entries are listed.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Only this action, such as job.pause.
    #[arg(long, value_name = "ACTION", value_parser = words(AuditAction::ALL, AuditAction::as_str))]
    action: Option<AuditAction>,
    /// Only the actions of this person: the name of an account, the label of a token, or an id as the log has it. `*`
    /// stands for any characters.
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Only what concerns this id or name, such as `client 17`. `*` stands for any characters.
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Only entries from this time on: 7d (ago), 2026-11-01 or 2026-11-01T09:30:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only entries before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Lists each enrolment.
    #[arg(long)]
    enrolments: bool,
}

impl SearchArgs {
    fn query(&self, page: PageQuery, now_ms: i64) -> AuditQuery {
        AuditQuery {
            limit: page.limit,
            after: page.after,
            action: self.action,
            person: self.person.clone(),
            subject: self.subject.clone(),
            since_at_ms: self.since.map(|moment| moment.at_ms(now_ms)),
            until_at_ms: self.until.map(|moment| moment.at_ms(now_ms)),
            fold: !self.enrolments,
        }
    }
}

impl Failure for ChainError {
    fn hint(&self) -> Option<String> {
        Some("compare with an earlier export: a person with write access to the database can change the log".into())
    }
}

/// A chain that is whole.
#[derive(Serialize)]
struct Verified {
    entries: u64,
    head: Sha256Hash,
}

pub(crate) async fn run(command: AuditCommand, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    match command {
        AuditCommand::List { search, limit } => list(&search, limit, global, output).await,
        AuditCommand::Export { file } => export(&global.operator_api(output)?, file.as_deref()).await,
        AuditCommand::Verify { file, head } => {
            let check = ChainCheck::new(head);
            let (entries, head) = match file {
                Some(file) => tokio::task::spawn_blocking(move || verify_file(&file, check))
                    .await
                    .map_err(|error| CliError::Internal(error.to_string()))??,
                None => verify_export(&global.operator_api(output)?, check).await?,
            };
            output.object(&Verified { entries, head }, || {
                format!("{} entries, none changed, missing or moved\nnewest hash: {head}", count(entries))
            })
        }
    }
}

async fn list(search: &SearchArgs, limit: LimitArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let api = global.operator_api(output)?;
    let fetch = async |page| api.audit(&search.query(page, output.now_ms)).await;
    let found = collect(limit.items_max(), fetch).await?;
    output.list(&found.items, &["#", "when", "who", "action", "subject", "detail"], |AuditRow { entry, folded }| {
        let who = if entry.label.is_empty() { entry.actor.clone() } else { entry.label.clone() };
        let (subject, detail) = match folded {
            Some(folded) => (
                format!("{} clients", count(folded.entries)),
                format!("on one day, the first {}", relative(folded.first_at_ms, output.now_ms)),
            ),
            None => (entry.subject.clone(), entry.detail.clone().unwrap_or_default()),
        };
        let when = relative(entry.at_ms, output.now_ms);
        vec![entry.number.to_string(), when, who, entry.action.to_string(), subject, detail]
    })?;
    output.note_if_cut(found.is_cut);
    Ok(())
}

async fn export(api: &Api, file: Option<&Path>) -> Result<(), CliError> {
    let mut body = api.export_audit().await?.bytes_stream();
    let failed = |error| match file {
        Some(path) => CliError::file("write", path)(error),
        None => CliError::Output(error),
    };
    let mut sink: Box<dyn Write> = match file {
        Some(path) => Box::new(std::fs::File::create(path).map_err(failed)?),
        None => Box::new(std::io::stdout()),
    };
    while let Some(piece) = body.next().await {
        sink.write_all(&piece.map_err(|error| api.interrupted(&error))?).map_err(failed)?;
    }
    sink.flush().map_err(failed)
}

async fn verify_export(api: &Api, mut check: ChainCheck) -> Result<(u64, Sha256Hash), CliError> {
    let mut body = api.export_audit().await?.bytes_stream();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(piece) = body.next().await {
        rest.extend_from_slice(&piece.map_err(|error| api.interrupted(&error))?);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
            if rest.len() > LINE_BYTES_MAX {
                return Err(CliError::BadSetting("the export has a line that is too long".into()));
            }
            continue;
        };
        let lines: Vec<u8> = rest.drain(..=end).collect();
        verify_lines(&lines[..], &mut check)?;
    }
    verify_lines(&rest[..], &mut check)?;
    Ok(check.finish()?)
}

fn verify_file(file: &Path, mut check: ChainCheck) -> Result<(u64, Sha256Hash), CliError> {
    if file == Path::new("-") {
        verify_lines(std::io::stdin().lock(), &mut check)?;
    } else {
        let source = std::fs::File::open(file).map_err(CliError::file("read", file))?;
        verify_lines(std::io::BufReader::new(source), &mut check)?;
    }
    Ok(check.finish()?)
}

fn verify_lines(mut lines: impl BufRead, check: &mut ChainCheck) -> Result<(), CliError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = Read::by_ref(&mut lines).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        if read.map_err(|error| CliError::BadSetting(format!("cannot read the log: {error}")))? == 0 {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        check.line(&String::from_utf8_lossy(text))?;
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::operator::{AuditEntry, CHAIN_BEGINS};
    use tributary_protocol::state::AuditAction;

    use super::*;

    fn lines(length: u64) -> Vec<String> {
        let mut previous = CHAIN_BEGINS;
        let line = |number| {
            let mut entry = AuditEntry {
                action: AuditAction::JobStop,
                actor: "account:ada".into(),
                at_ms: 7,
                detail: None,
                hash: CHAIN_BEGINS,
                label: "ada".into(),
                number,
                population: None,
                previous,
                subject: "job".into(),
            };
            entry.hash = entry.computed_hash();
            previous = entry.hash;
            entry.line()
        };
        (1..=length).map(line).collect()
    }

    fn verified(text: &str) -> Result<(u64, Sha256Hash), CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, text).unwrap();
        verify_file(&path, ChainCheck::new(None))
    }

    #[test]
    fn a_file_is_whole_or_the_broken_entry_is_named() {
        let lines = lines(3);
        assert_eq!(verified(&lines.join("\n")).unwrap().0, 3, "the last line may lack its end");
        assert_eq!(verified(&format!("{}\n", lines.join("\n"))).unwrap().0, 3);
        assert_eq!(verified("").unwrap(), (0, CHAIN_BEGINS));
        let changed = lines.join("\n").replacen("ada", "eve", 1);
        assert!(verified(&changed).unwrap_err().to_string().contains("entry 1 was changed"));
        let missing = [&*lines[0], &*lines[2]].join("\n");
        assert!(verified(&missing).unwrap_err().to_string().contains("entry 2 is missing"));
        let empty_line = format!("{}\n\n{}", lines[0], lines[1]);
        assert!(verified(&empty_line).unwrap_err().to_string().contains("entry 2 is not an entry"));
    }
}
