//! `tributary token`: credentials of operators and of apps.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::operator::{CreateToken, CreatedToken, ENROLMENTS_PER_MINUTE_DEFAULT, Token};
use tributary_protocol::relay::RELAY_ATTRIBUTE;
use tributary_protocol::state::Role;

use crate::api::{Api, collect_sorted};
use crate::error::CliError;
use crate::format::{or_dash, relative, timestamp};
use crate::options::{LimitArgs, ReverseArgs};
use crate::output::{self, Output};
use crate::units::HumanDuration;

/// What a list of tokens is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenSort {
    /// The newest first.
    Newest,
    /// By label.
    Label,
    /// By last use: the latest first, those never used last.
    Used,
    /// By end: the earliest first, those without one last.
    Expires,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Creates a token and shows its secret, which is not shown again.
    Create(CreateArgs),
    /// Lists tokens without their secrets.
    List {
        /// What the list is sorted by.
        #[arg(long, value_name = "KEY", default_value = "newest")]
        sort: TokenSort,
        #[command(flatten)]
        reverse: ReverseArgs,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Makes a token invalid. Clients that were enrolled with it stay enrolled.
    Revoke {
        /// The token's id (not its secret), as `token list` shows it.
        #[arg(value_name = "ID")]
        id: TokenId,
        /// Revokes all clients that it enrolled, too.
        #[arg(long)]
        with_clients: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// An enrolment token: apps that carry it may enrol clients in this population. With --operator, the only
    /// population that the operator token shows and changes.
    #[arg(long, value_name = "NAME", required_unless_present = "operator")]
    population: Option<Name>,
    /// An operator token: a viewer sees, an operator also creates and steers jobs, an admin also manages populations,
    /// tokens and accounts, and deletes jobs.
    #[arg(long, value_name = "viewer|operator|admin")]
    operator: Option<Role>,
    /// A note for people, for example which app carries it.
    #[arg(long, default_value = "", value_name = "TEXT")]
    label: String,
    /// How long it is valid (30d, 12h, 90min) [default: 90d for operators, for ever for apps].
    #[arg(long, value_name = "DURATION")]
    valid_for: Option<HumanDuration>,
    /// The most clients that an enrolment token can enrol [default: any number].
    #[arg(long, value_name = "CLIENTS", conflicts_with = "operator")]
    uses: Option<u64>,
    /// The most clients that an enrolment token can enrol in a minute; `none`: any number [default: 600].
    #[arg(long, value_name = "CLIENTS|none", conflicts_with = "operator")]
    per_minute: Option<PerMinute>,
    /// An attribute of each client that an enrolment token enrols, which the client cannot change. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "operator", value_parser = pair)]
    attribute: Vec<(String, String)>,
    /// An enrolment token for relays (`tributary relay`): each of its clients stands for several, and sends the sum of
    /// their updates. It grants the attribute relay=true.
    #[arg(long, conflicts_with = "operator")]
    relay: bool,
}

/// A number of clients in a minute; `None`: any.
#[derive(Clone, Copy, Debug)]
struct PerMinute(Option<u32>);

impl FromStr for PerMinute {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|most| Self(Some(most))) }
    }
}

pub(crate) async fn run(command: TokenCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        TokenCommand::Create(args) => {
            let created = api.create_token(&wanted(args)?).await?;
            output.object(&created, || created_text(&created, output))
        }
        TokenCommand::List { sort, reverse, limit } => {
            let order = |a: &Token, b: &Token| match reverse.reverse {
                false => compare_tokens(sort, a, b),
                true => compare_tokens(sort, b, a),
            };
            let tokens = collect_sorted(limit.items_max(), order, async |page| api.tokens(page).await).await?;
            let header = ["id", "for", "label", "created", "used", "enrolled", "state"];
            output.list(&tokens.items, &header, |token| {
                vec![
                    token.id.to_string(),
                    purpose(token),
                    token.label.clone(),
                    relative(token.created_at_ms, output.now_ms),
                    or_dash(token.last_used_at_ms, |at_ms| relative(at_ms, output.now_ms)),
                    enrolled(token),
                    state(token, output.now_ms),
                ]
            })?;
            output.note_if_cut(tokens.is_cut);
            Ok(())
        }
        TokenCommand::Revoke { id, with_clients } => {
            api.revoke_token(id, with_clients).await?;
            output.object(&serde_json::json!({ "revoked": id }), || format!("revoked {id}"))
        }
    }
}

/// The order of a list; the newest first among equals.
fn compare_tokens(sort: TokenSort, a: &Token, b: &Token) -> Ordering {
    let by_key = match sort {
        TokenSort::Newest => Ordering::Equal,
        TokenSort::Label => a.label.cmp(&b.label),
        TokenSort::Used => b.last_used_at_ms.cmp(&a.last_used_at_ms),
        TokenSort::Expires => {
            let end = |token: &Token| token.expires_at_ms.unwrap_or(i64::MAX);
            end(a).cmp(&end(b))
        }
    };
    by_key.then(b.created_at_ms.cmp(&a.created_at_ms))
}

fn wanted(args: CreateArgs) -> Result<CreateToken, CliError> {
    let CreateArgs { population, operator, label, valid_for, uses, per_minute, attribute, relay } = args;
    let valid_for_ms = valid_for.map(HumanDuration::ms);
    let enrolment = |population| {
        let relay = relay.then(|| (RELAY_ATTRIBUTE.to_owned(), "true".to_owned()));
        let attributes: BTreeMap<String, String> = attribute.into_iter().chain(relay).collect();
        let attributes = Attributes::try_from(attributes).map_err(|error| CliError::BadSetting(error.to_string()))?;
        Ok(CreateToken::Enrolment {
            population,
            label: label.clone(),
            valid_for_ms,
            uses_max: uses,
            per_minute_max: per_minute.map_or(Some(ENROLMENTS_PER_MINUTE_DEFAULT), |PerMinute(most)| most),
            attributes,
        })
    };
    match (operator, population) {
        (Some(role), population) => Ok(CreateToken::Operator { role, population, label, valid_for_ms }),
        (None, Some(population)) => enrolment(population),
        (None, None) => Err(CliError::Internal("a token for nobody".into())),
    }
}

/// Parses `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("an attribute is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn created_text(created: &CreatedToken, output: &Output) -> String {
    let token = &created.token;
    let mut pairs = vec![
        ("id", token.id.to_string()),
        ("for", purpose(token)),
        ("valid until", or_dash(token.expires_at_ms, timestamp)),
    ];
    if !token.attributes.is_empty() {
        let attributes = token.attributes.as_map().iter().map(|(name, value)| format!("{name}={value}"));
        pairs.push(("grants", attributes.collect::<Vec<_>>().join(" ")));
    }
    // The secret has a line of its own, so that no terminal width breaks it.
    let fields = output::fields(&pairs, output.width);
    format!("{fields}\n\n{}\n\nThis is the secret. It is not shown again: keep it safe.", created.secret.expose())
}

fn purpose(token: &Token) -> String {
    match (token.role, &token.population) {
        (Some(role), None) => role.to_string(),
        (Some(role), Some(population)) => format!("{role} of {population}"),
        (None, population) => format!("clients of {}", population.as_ref().map_or("", Name::as_str)),
    }
}

/// The clients that an enrolment token has enrolled, and how many it may.
fn enrolled(token: &Token) -> String {
    match (token.role, token.uses_max) {
        (Some(_), _) => "-".into(),
        (None, None) => token.uses.to_string(),
        (None, Some(uses_max)) => format!("{} of {uses_max}", token.uses),
    }
}

fn state(token: &Token, now_ms: i64) -> String {
    match (token.revoked_at_ms, token.expires_at_ms) {
        (Some(revoked_at_ms), _) => format!("revoked {}", relative(revoked_at_ms, now_ms)),
        (None, Some(expires_at_ms)) if expires_at_ms <= now_ms => {
            format!("expired {}", relative(expires_at_ms, now_ms))
        }
        _ if token.uses_max.is_some_and(|uses_max| token.uses >= uses_max) => "used up".into(),
        (None, Some(expires_at_ms)) => format!("expires {}", relative(expires_at_ms, now_ms)),
        (None, None) => "valid".into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use tributary_protocol::state::TokenKind;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn asked(line: &str) -> serde_json::Value {
        let args = Line::try_parse_from(std::iter::once("create").chain(line.split_whitespace())).unwrap().args;
        serde_json::to_value(wanted(args).unwrap()).unwrap()
    }

    fn token() -> Token {
        serde_json::from_value(json!({
            "id": TokenId::from_random([1; 16]), "kind": TokenKind::Enrolment, "population": "demo", "label": "",
            "created_at_ms": 0, "uses": 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_command_line_asks_for_one_kind_of_token() {
        let operator = asked("--operator viewer --population demo --valid-for 1h");
        let expected = json!({
            "kind": "operator", "role": "viewer", "population": "demo", "label": "", "valid_for_ms": 3_600_000,
        });
        assert_eq!(operator, expected);
        let enrolment = asked("--population demo --uses 10 --per-minute 3 --attribute site=a --attribute class=b=c");
        let expected = json!({
            "kind": "enrolment", "population": "demo", "label": "", "uses_max": 10, "per_minute_max": 3,
            "attributes": { "site": "a", "class": "b=c" },
        });
        assert_eq!(enrolment, expected);
        assert_eq!(asked("--population demo")["per_minute_max"], 600);
        assert!(asked("--population demo --per-minute none")["per_minute_max"].is_null());
        for wrong in ["", "--operator", "--operator root", "--operator admin --uses 3", "--population a --attribute b"]
        {
            let line = std::iter::once("create").chain(wrong.split_whitespace());
            assert!(Line::try_parse_from(line).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_says_whether_it_is_valid() {
        let token = |expires_at_ms, revoked_at_ms| Token { expires_at_ms, revoked_at_ms, ..token() };
        let now = 10_000_000;
        assert_eq!(state(&token(None, None), now), "valid");
        assert_eq!(state(&token(Some(now + 7_200_000), None), now), "expires in 2 h");
        assert_eq!(state(&token(Some(now - 7_200_000), None), now), "expired 2 h ago");
        assert_eq!(state(&token(Some(now + 1), Some(now - 60_000)), now), "revoked 1 min ago");
        assert_eq!(state(&Token { uses_max: Some(2), ..token(Some(now + 1), None) }, now), "used up");
    }

    #[test]
    fn a_token_says_for_whom_it_is() {
        assert_eq!((purpose(&token()), enrolled(&token())), ("clients of demo".into(), "2".into()));
        let operator = Token { role: Some(Role::Viewer), ..token() };
        assert_eq!((purpose(&operator), enrolled(&operator)), ("viewer of demo".into(), "-".into()));
        assert_eq!(purpose(&Token { population: None, ..operator }), "viewer");
    }
}
