//! `tributary token`: credentials of operators and of apps.

use tributary_protocol::operator::{CreateToken, CreatedToken, Token};

use crate::api::{Api, collect};
use crate::args::TokenCommand;
use crate::error::CliError;
use crate::format::{or_dash, relative, timestamp};
use crate::output::{self, Output};

/// Runs one of the commands.
///
/// # Errors
/// Those of the calls, and a standard output that is gone.
pub(crate) async fn run(command: TokenCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        // Clap lets exactly one of `--population` and `--operator` through.
        TokenCommand::Create { population, operator: _, label, valid_for } => {
            let created = api.create_token(&CreateToken { population, label, valid_for_ms: valid_for }).await?;
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
        ("works until", or_dash(token.expires_at_ms, timestamp)),
    ];
    // The secret stands on a line of its own, so that no terminal width can break it.
    let fields = output::fields(&pairs, output.width);
    format!("{fields}\n\n{}\n\nThis is the secret. It is shown this once: keep it safe.", created.secret.expose())
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
    use tributary_protocol::id::TokenId;

    #[test]
    fn a_token_says_whether_it_still_works() {
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
