//! `tributary account`: people who sign in to the dashboard.

use std::io::{IsTerminal, Read};

use clap::Subcommand;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Account, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN};
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::Role;

use crate::api::{Api, collect};
use crate::error::{CliError, Failure};
use crate::format::{or_dash, relative};
use crate::options::LimitArgs;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Creates an account. The password is asked for, or read from standard input.
    Create {
        /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
        #[arg(value_name = "NAME")]
        name: Name,
        /// A viewer sees, an operator also creates and steers jobs, an admin also manages populations, tokens and
        /// accounts.
        #[arg(long, value_name = "viewer|operator|admin")]
        role: Role,
        /// The only population that the account shows and changes [default: all].
        #[arg(long, value_name = "NAME")]
        population: Option<Name>,
    },
    /// Lists accounts.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Sets the password of an account, and ends its sessions. It is asked for, or read from standard input.
    Password {
        /// The account's name.
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Makes an account invalid for good, and ends its sessions.
    Revoke {
        /// The account's name.
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Lists the sessions of an account: the browsers in which it is signed in.
    Sessions {
        /// The account's name.
        #[arg(value_name = "NAME", required_unless_present = "oidc")]
        name: Option<Name>,
        /// A person of the identity provider instead, by the provider's subject, as the audit log names it after
        /// `oidc:`.
        #[arg(long, value_name = "SUBJECT", conflicts_with = "name")]
        oidc: Option<String>,
        /// Ends them all instead.
        #[arg(long)]
        end: bool,
    },
}

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    #[error("cannot read the password: {0}")]
    Read(#[from] std::io::Error),
    #[error("the two passwords differ")]
    Different,
    #[error("a password has {PASSWORD_CHARS_MIN} characters or more, and at most {PASSWORD_BYTES_MAX} bytes")]
    Length,
}

impl Failure for PasswordError {}

pub(crate) async fn run(command: AccountCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        AccountCommand::Create { name, role, population } => {
            let password = password().await?;
            let account = api.create_account(&name, role, population.as_ref(), &password).await?;
            output.object(&account, || format!("created the account {name}: {}", purpose(&account)))
        }
        AccountCommand::List { limit } => {
            let accounts = collect(limit.items_max(), async |page| api.accounts(page).await).await?;
            output.list(&accounts.items, &["name", "role", "created", "password", "state"], |account| {
                vec![
                    account.name.to_string(),
                    purpose(account),
                    relative(account.created_at_ms, output.now_ms),
                    relative(account.password_at_ms, output.now_ms),
                    account.revoked_at_ms.map_or_else(
                        || "valid".into(),
                        |revoked_at_ms| format!("revoked {}", relative(revoked_at_ms, output.now_ms)),
                    ),
                ]
            })?;
            output.note_if_cut(accounts.is_cut);
            Ok(())
        }
        AccountCommand::Password { name } => {
            api.change_password(&name, &password().await?).await?;
            output.object(&serde_json::json!({ "changed": name }), || format!("changed the password of {name}"))
        }
        AccountCommand::Revoke { name } => {
            api.revoke_account(&name).await?;
            output.object(&serde_json::json!({ "revoked": name }), || format!("revoked {name}"))
        }
        AccountCommand::Sessions { name, oidc, end } => sessions(name, oidc, end, api, output).await,
    }
}

/// Lists or ends the sessions of an account, or of a person of the identity provider.
async fn sessions(
    name: Option<Name>,
    oidc: Option<String>,
    end: bool,
    api: &Api,
    output: &Output,
) -> Result<(), CliError> {
    let who = match (&name, oidc) {
        (Some(name), _) => name.to_string(),
        (None, subject) => format!("oidc:{}", subject.unwrap_or_default()),
    };
    if end {
        match &name {
            Some(name) => api.end_sessions(name).await?,
            None => api.end_provider_sessions(&who).await?,
        }
        return output.object(&serde_json::json!({ "ended": who }), || format!("ended the sessions of {who}"));
    }
    let sessions = match &name {
        Some(name) => api.sessions(name).await?,
        None => api.provider_sessions(&who).await?,
    };
    output.list(&sessions, &["from", "began", "used", "ends"], |session| {
        vec![
            or_dash(session.address.clone(), |address| address),
            relative(session.created_at_ms, output.now_ms),
            relative(session.last_used_at_ms, output.now_ms),
            relative(session.expires_at_ms, output.now_ms),
        ]
    })
}

fn purpose(account: &Account) -> String {
    match &account.population {
        Some(population) => format!("{} of {population}", account.role),
        None => account.role.to_string(),
    }
}

/// Asks for a password twice, or reads it from standard input. It is never an argument: other users of the machine can
/// see command lines.
async fn password() -> Result<Sealed<String>, CliError> {
    let read = || {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return from_input(stdin.lock());
        }
        let terminal = console::Term::stderr();
        let ask = |question: &str| {
            terminal.write_str(question)?;
            terminal.read_secure_line()
        };
        let first = ask("password: ")?;
        if first != ask("the same again: ")? {
            return Err(PasswordError::Different);
        }
        checked(first)
    };
    let password = tokio::task::spawn_blocking(read).await;
    Ok(password.map_err(|error| CliError::Internal(error.to_string()))??)
}

/// The password in a text without the line break at its end.
fn from_input(input: impl Read) -> Result<Sealed<String>, PasswordError> {
    let mut text = String::new();
    input.take(PASSWORD_BYTES_MAX as u64 + 3).read_to_string(&mut text)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    checked(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn checked(password: String) -> Result<Sealed<String>, PasswordError> {
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        return Err(PasswordError::Length);
    }
    Ok(password.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_from_standard_input_has_no_line_break() {
        for text in ["correct horse battery", "correct horse battery\n", "correct horse battery\r\n"] {
            assert_eq!(from_input(text.as_bytes()).unwrap().expose(), "correct horse battery");
        }
        assert_eq!(from_input(&b" spaces stay \n"[..]).unwrap().expose(), " spaces stay ");
    }

    #[test]
    fn a_password_of_another_length_is_refused_and_not_repeated() {
        for wrong in ["", "short", &"x".repeat(PASSWORD_BYTES_MAX + 1)] {
            let error = from_input(wrong.as_bytes()).unwrap_err();
            assert!(matches!(error, PasswordError::Length) && !error.to_string().contains("short"));
        }
        assert!(from_input("ü".repeat(PASSWORD_CHARS_MIN).as_bytes()).is_ok(), "characters, not bytes");
    }
}
