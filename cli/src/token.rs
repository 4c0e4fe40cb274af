//! `tributary token`: credentials of operators and of apps.

use clap::{ArgGroup, Subcommand};
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::operator::{CreateToken, CreatedToken, Token};

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::{or_dash, relative, timestamp};
use crate::options::LimitArgs;
use crate::output::{self, Output};
use crate::units::HumanDuration;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Creates a token and shows its secret, which is not shown again.
    #[command(group(ArgGroup::new("kind").required(true)))]
    Create {
        /// An enrolment token: apps that carry it may enrol clients in this population.
        #[arg(long, value_name = "NAME", group = "kind")]
        population: Option<Name>,
        /// An operator token: its holder may do everything.
        #[arg(long, group = "kind")]
        operator: bool,
        /// A note for people, for example which app carries it.
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
        /// How long it is valid (30d, 12h, 90min) [default: for ever].
        #[arg(long, value_name = "DURATION")]
        valid_for: Option<HumanDuration>,
    },
    /// Lists tokens, without their secrets.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Makes a token invalid. Clients that were enrolled with it stay enrolled.
    Revoke {
        /// The token's id (not its secret), as `token list` shows it.
        #[arg(value_name = "ID")]
        id: TokenId,
    },
}

pub(crate) async fn run(command: TokenCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        // Clap accepts exactly one of `--population` and `--operator`.
        TokenCommand::Create { population, operator: _, label, valid_for } => {
            let valid_for_ms = valid_for.map(HumanDuration::ms);
            let created = api.create_token(&CreateToken { population, label, valid_for_ms }).await?;
            output.object(&created, || created_text(&created, output))
        }
        TokenCommand::List { limit } => {
            let tokens = collect(limit.items_max(), async |page| api.tokens(page).await).await?;
            output.list(&tokens.items, &["id", "for", "label", "created", "state"], |token| {
                vec![
                    token.id.to_string(),
                    purpose(token),
                    token.label.clone(),
                    relative(token.created_at_ms, output.now_ms),
                    state(token, output.now_ms),
                ]
            })?;
            output.note_if_cut(tokens.is_cut);
            Ok(())
        }
        TokenCommand::Revoke { id } => {
            api.revoke_token(id).await?;
            output.object(&serde_json::json!({ "revoked": id }), || format!("revoked {id}"))
        }
    }
}

fn created_text(created: &CreatedToken, output: &Output) -> String {
    let token = &created.token;
    let pairs = [
        ("id", token.id.to_string()),
        ("for", purpose(token)),
        ("valid until", or_dash(token.expires_at_ms, timestamp)),
    ];
    // The secret has a line of its own, so that no terminal width breaks it.
    let fields = output::fields(&pairs, output.width);
    format!("{fields}\n\n{}\n\nThis is the secret. It is not shown again: keep it safe.", created.secret.expose())
}

fn purpose(token: &Token) -> String {
    token.population.as_ref().map_or_else(|| "operator".into(), |population| format!("clients of {population}"))
}

fn state(token: &Token, now_ms: i64) -> String {
    match (token.revoked_at_ms, token.expires_at_ms) {
        (Some(revoked_at_ms), _) => format!("revoked {}", relative(revoked_at_ms, now_ms)),
        (None, Some(expires_at_ms)) if expires_at_ms <= now_ms => {
            format!("expired {}", relative(expires_at_ms, now_ms))
        }
        (None, Some(expires_at_ms)) => format!("expires {}", relative(expires_at_ms, now_ms)),
        (None, None) => "valid".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_whether_it_is_valid() {
        let token = |expires_at_ms, revoked_at_ms| Token {
            id: TokenId::from_random([1; 16]),
            population: None,
            label: String::new(),
            created_at_ms: 0,
            expires_at_ms,
            revoked_at_ms,
        };
        let now = 10_000_000;
        assert_eq!(state(&token(None, None), now), "valid");
        assert_eq!(state(&token(Some(now + 7_200_000), None), now), "expires in 2 h");
        assert_eq!(state(&token(Some(now - 7_200_000), None), now), "expired 2 h ago");
        assert_eq!(state(&token(Some(now + 1), Some(now - 60_000)), now), "revoked 1 min ago");
    }
}
