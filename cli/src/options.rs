//! Options that several commands have.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tributary_client::{Trust, is_exposed};
use tributary_protocol::id::{IdError, Name, PinnedSecret, Secret, SecretKind};
use tributary_protocol::operator::Order;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::update::Codec;

use crate::api::Api;
use crate::error::{CliError, Failure};
use crate::output::Output;
use crate::units::HttpUrl;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The coordinator's address [default: http://127.0.0.1:7300].
    #[arg(long, global = true, env = "TRIBUTARY_SERVER", value_name = "URL")]
    pub server: Option<ServerUrl>,
    /// An operator token; for `client run`, an enrolment token. Prefer the variable: other users of the machine can see
    /// command lines.
    #[arg(long, global = true, env = "TRIBUTARY_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<Sealed<String>>,
    /// The CA of the coordinator's certificate, a PEM file [default: for `client run` the CA that the enrolment token
    /// names, else those that the system trusts].
    #[arg(long, global = true, env = "TRIBUTARY_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The profile of `tributary login` to use [default: the one named default, if there is one].
    #[arg(long, global = true, env = "TRIBUTARY_PROFILE", value_name = "NAME")]
    pub profile: Option<Name>,
    /// The folder of the profiles [default: .config/tributary in the home folder].
    #[arg(long, global = true, env = "TRIBUTARY_CONFIG_DIR", value_name = "FOLDER")]
    pub config_dir: Option<PathBuf>,
    /// Prints JSON objects, one per line, instead of text. Errors are JSON objects, too, on standard error.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArgs {
    /// Shows at most this many items; 0 shows all.
    #[arg(long, default_value_t = 100, value_name = "ITEMS")]
    limit: usize,
}

/// The direction of a sorted list.
#[derive(Clone, Copy, Debug, Args)]
pub struct ReverseArgs {
    /// The other way round.
    #[arg(long)]
    pub reverse: bool,
}

impl ReverseArgs {
    /// The direction, from the usual one.
    pub fn of(self, usual: Order) -> Order {
        if self.reverse { usual.reversed() } else { usual }
    }
}

/// Parses one of these values from its word.
pub fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(word)).map(move |found| {
        let value = all.into_iter().find(|value| word(*value) == found);
        value.expect("the parser allows only the words of the values")
    })
}

/// Parses one of many values from its word.
pub fn words<T>(all: &'static [T], word: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(move |value| word(*value))).map(move |found| {
        let value = all.iter().find(|value| word(**value) == found);
        *value.expect("the parser allows only the words of the values")
    })
}

/// A coordinator's address: an HTTP URL without `?` and `#`, to which paths are appended. Without `http://` or
/// `https://`, it is the first on this machine and the second elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServerUrl(Url);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a coordinator's address is HOST:PORT, http://HOST:PORT or https://HOST, without `?` and `#`")]
pub struct ServerUrlError;

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the given token is not a Tributary token")]
    Malformed(#[source] IdError),
    /// Both with their article.
    #[error("this command needs {needed} token, and the given one is {given} token")]
    WrongKind { needed: &'static str, given: &'static str },
    #[error("{0} token is needed")]
    Missing(&'static str),
}

impl Failure for TokenError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Malformed(_) => "tokens start with `tributary_`; check that nothing was cut off",
            Self::WrongKind { .. } => {
                "`tributary token create` makes both kinds: --operator ROLE for commands, --population for clients"
            }
            Self::Missing(_) => "pass it with --token or TRIBUTARY_TOKEN",
        };
        Some(hint.into())
    }
}

impl GlobalArgs {
    /// The operator API of the chosen coordinator.
    pub fn operator_api(&self, output: &Output) -> Result<Api, CliError> {
        let token = self.token.as_ref().map(|token| secret(token, SecretKind::Operator)).transpose()?;
        let server = self.server.clone().unwrap_or_default();
        server.warn_if_exposed(output);
        let trust = self.ca.as_deref().map(authorities).transpose()?.unwrap_or_default();
        Ok(Api::trusting(server.url().clone(), token, &trust)?)
    }
}

impl LimitArgs {
    /// `None`: all items.
    pub fn items_max(self) -> Option<usize> {
        (self.limit > 0).then_some(self.limit)
    }
}

impl ServerUrl {
    pub fn url(&self) -> &Url {
        &self.0
    }

    pub fn warn_if_exposed(&self, output: &Output) {
        if is_exposed(self.0.as_str()) {
            output.note(&format!("warning: {} is plain HTTP: everyone on the way can read and copy the token", self.0));
        }
    }
}

impl Default for ServerUrl {
    fn default() -> Self {
        "http://127.0.0.1:7300".parse().expect("an HTTP URL")
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let text = if text.contains("://") { text.to_owned() } else { with_scheme(text) };
        let url = text.parse::<HttpUrl>().map_err(|_| ServerUrlError)?.url().clone();
        if url.query().is_none() && url.fragment().is_none() { Ok(Self(url)) } else { Err(ServerUrlError) }
    }
}

fn with_scheme(text: &str) -> String {
    let plain = format!("http://{text}");
    if is_exposed(&plain) { format!("https://{text}") } else { plain }
}

impl TryFrom<String> for ServerUrl {
    type Error = ServerUrlError;

    fn try_from(text: String) -> Result<Self, ServerUrlError> {
        text.parse()
    }
}

/// The CAs of a PEM file.
pub fn authorities(file: &Path) -> Result<Trust, CliError> {
    let pem = std::fs::read(file).map_err(CliError::file("read", file))?;
    Trust::authorities(&pem).map_err(|error| CliError::BadSetting(format!("{}: {error}", file.display())))
}

/// An enrolment token, and whose certificates its client trusts: those of the file, of the CA that the token names, or
/// of the system.
pub fn enrolling(token: Option<&Sealed<String>>, ca: Option<&Path>) -> Result<(PinnedSecret, Trust), CliError> {
    let token = pinned_secret(token.ok_or(TokenError::Missing("an enrolment"))?, SecretKind::Enrolment)?;
    let trust = match (ca, token.ca()) {
        (Some(file), _) => authorities(file)?,
        (None, Some(fingerprint)) => Trust::Pinned(fingerprint),
        (None, None) => Trust::System,
    };
    Ok((token, trust))
}

/// Parses a token and checks its kind. The text is checked here and not by clap, whose messages would repeat it.
pub fn secret(text: &Sealed<String>, needed: SecretKind) -> Result<Secret, TokenError> {
    pinned_secret(text, needed).map(|pinned| pinned.secret().clone())
}

/// The same with the CA that the token names.
pub fn pinned_secret(text: &Sealed<String>, needed: SecretKind) -> Result<PinnedSecret, TokenError> {
    let pinned: PinnedSecret = text.expose().trim().parse().map_err(TokenError::Malformed)?;
    let given = pinned.secret().kind();
    if given == needed {
        return Ok(pinned);
    }
    Err(TokenError::WrongKind { needed: kind_name(needed), given: kind_name(given) })
}

fn kind_name(kind: SecretKind) -> &'static str {
    match kind {
        SecretKind::Operator => "an operator",
        SecretKind::Enrolment => "an enrolment",
        SecretKind::Client => "a client's own",
    }
}

/// Parses a codec: its name (`int8`), or a JSON object with its settings (`{"name":"qsgd","levels":16}`).
pub fn parse_codec(text: &str) -> Result<Codec, String> {
    parse_named(text)
}

/// A setting that is written as its name, or as a JSON object with its own settings.
pub fn parse_named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let json = if text.starts_with('{') { text.to_owned() } else { format!("{text:?}") };
    serde_json::from_str(&json).map_err(|error| format!("no such setting: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url() {
        assert_eq!("https://fl.example.org/a".parse::<ServerUrl>().unwrap().url().path(), "/a");
        assert_eq!(ServerUrl::default().url().port(), Some(7300));
        for (short, whole) in [
            ("127.0.0.1:7300", "http://127.0.0.1:7300/"),
            ("localhost:7300", "http://localhost:7300/"),
            ("[::1]:7300", "http://[::1]:7300/"),
            ("fl.example.org", "https://fl.example.org/"),
            ("10.0.0.1:7300", "https://10.0.0.1:7300/"),
        ] {
            assert_eq!(short.parse::<ServerUrl>().unwrap().url().as_str(), whole);
        }
        for wrong in ["", "ftp://x", "http://", "http://x/?a=b"] {
            assert!(wrong.parse::<ServerUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistyped_token_is_not_repeated() {
        let error = secret(&"tributary_operator_5ecret".into(), SecretKind::Operator).expect_err("too short");
        assert!(!format!("{error} {error:?}").contains("5ecret"));
    }

    #[test]
    fn an_enrolment_token_is_told_apart_from_an_operators() {
        let text = Sealed::from(Secret::from_random(SecretKind::Enrolment, [7; 32]).expose());
        assert!(secret(&text, SecretKind::Enrolment).is_ok());
        let error = secret(&text, SecretKind::Operator).expect_err("of another kind");
        assert_eq!(error.to_string(), "this command needs an operator token, and the given one is an enrolment token");
    }
}
