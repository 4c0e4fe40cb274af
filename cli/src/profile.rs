//! Profiles: coordinators with their tokens, in a file that only its owner reads. `tributary login` and `logout`.

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_protocol::id::{Name, SecretKind};
use tributary_protocol::operator::PageQuery;
use tributary_protocol::sealed::Sealed;

use crate::error::{CliError, Failure};
use crate::files::private_beside;
use crate::options::{GlobalArgs, ServerUrl, secret};
use crate::output::Output;
use crate::settings_file;

/// The profile of those who have one coordinator.
const DEFAULT: &str = "default";
const FILE: &str = "profiles.toml";

/// A coordinator and the token for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    server: ServerUrl,
    token: Sealed<String>,
    #[serde(default)]
    ca: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Profiles {
    profiles: BTreeMap<String, Profile>,
}

/// As it is written, with its secret.
#[derive(Serialize)]
struct Written<'a> {
    server: &'a str,
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<&'a Path>,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The coordinator's address [default: that of --server].
    #[arg(value_name = "URL")]
    url: Option<ServerUrl>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("there is no profile {0}")]
    Missing(String),
    #[error("no folder for profiles is known: there is no home folder")]
    NoFolder,
}

impl Failure for ProfileError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Missing(_) => crate::error::exit::NOT_FOUND,
            Self::NoFolder => crate::error::exit::FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing(name) => format!("`tributary login URL --profile {name}` makes it"),
            Self::NoFolder => "name one with --config-dir".into(),
        })
    }
}

/// The options, with those of the chosen profile where the command line leaves them open.
pub(crate) fn resolved(global: &GlobalArgs) -> Result<GlobalArgs, CliError> {
    // The token of one coordinator is never sent to another one.
    let same = |profile: &Profile| global.server.as_ref().is_none_or(|server| *server == profile.server);
    let Some(profile) = chosen(global)?.filter(same) else { return Ok(global.clone()) };
    Ok(GlobalArgs {
        server: Some(profile.server),
        token: global.token.clone().or(Some(profile.token)),
        ca: global.ca.clone().or(profile.ca),
        ..global.clone()
    })
}

/// The chosen profile; without a choice, the default one if it is there.
fn chosen(global: &GlobalArgs) -> Result<Option<Profile>, CliError> {
    let Ok(path) = path(global) else { return Ok(None) };
    let mut profiles = read(&path)?.profiles;
    match &global.profile {
        Some(name) => match profiles.remove(name.as_str()) {
            Some(profile) => Ok(Some(profile)),
            None => Err(ProfileError::Missing(name.to_string()).into()),
        },
        None => Ok(profiles.remove(DEFAULT)),
    }
}

/// Checks a token with its coordinator, and stores both.
pub(crate) async fn login(args: LoginArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let path = path(global)?;
    let server = args.url.or_else(|| global.server.clone()).unwrap_or_default();
    let token = match &global.token {
        Some(token) => token.clone(),
        None => asked(&server)?,
    };
    secret(&token, SecretKind::Operator)?;
    // Other folders must find the file, too.
    let ca = global.ca.as_ref().map(std::path::absolute).transpose().map_err(CliError::file("find", "the CA"))?;
    let tried =
        GlobalArgs { server: Some(server.clone()), token: Some(token.clone()), ca: ca.clone(), ..global.clone() };
    tried.operator_api(output)?.populations(PageQuery { limit: Some(1), after: None }).await?;

    let name = name(global);
    let mut profiles = read(&path)?;
    profiles.profiles.insert(name.clone(), Profile { server: server.clone(), token, ca });
    write(&path, &profiles)?;
    let stored = serde_json::json!({ "profile": name, "server": server.url().as_str(), "file": path });
    output.object(&stored, || {
        let others = if name == DEFAULT { String::new() } else { format!(" with --profile {name}") };
        format!("commands use {} from now on{others}; the token is in {}", server.url(), path.display())
    })
}

/// Forgets a profile. Its token stays valid.
pub(crate) fn logout(global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let path = path(global)?;
    let name = name(global);
    let mut profiles = read(&path)?;
    if profiles.profiles.remove(&name).is_none() {
        return Err(ProfileError::Missing(name).into());
    }
    write(&path, &profiles)?;
    output.object(&serde_json::json!({ "forgotten": name }), || {
        format!("forgot the profile {name}; `tributary token revoke` makes its token invalid")
    })
}

fn name(global: &GlobalArgs) -> String {
    global.profile.as_ref().map_or(DEFAULT, Name::as_str).to_owned()
}

fn path(global: &GlobalArgs) -> Result<PathBuf, ProfileError> {
    let folder = global.config_dir.clone();
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".config").join("tributary")));
    Ok(folder.ok_or(ProfileError::NoFolder)?.join(FILE))
}

fn read(path: &Path) -> Result<Profiles, CliError> {
    match path.metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Profiles::default()),
        _ => Ok(settings_file::read(path)?),
    }
}

fn write(path: &Path, profiles: &Profiles) -> Result<(), CliError> {
    let entries: BTreeMap<&str, Written<'_>> = profiles
        .profiles
        .iter()
        .map(|(name, Profile { server, token, ca })| {
            (name.as_str(), Written { server: server.url().as_str(), token: token.expose(), ca: ca.as_deref() })
        })
        .collect();
    let text = toml::to_string(&BTreeMap::from([("profiles", entries)]));
    let text = text.map_err(|error| CliError::Internal(error.to_string()))?;
    let failed = |error| CliError::file("write", path)(error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = private_beside(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Reads a token from the keyboard, unseen, or from a pipe.
fn asked(server: &ServerUrl) -> Result<Sealed<String>, CliError> {
    let failed = |error| CliError::file("read", "the token")(error);
    let mut text = String::new();
    if std::io::stdin().is_terminal() {
        eprint!("Operator token for {}: ", server.url());
        text = console::Term::stderr().read_secure_line().map_err(failed)?;
    } else {
        std::io::stdin().lock().read_line(&mut text).map_err(failed)?;
    }
    Ok(Sealed::from(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, output};
    use clap::Parser;
    use tributary_protocol::id::Secret;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        global: GlobalArgs,
    }

    fn global(folder: &Path, more: &str) -> GlobalArgs {
        let folder = folder.display().to_string();
        let words = ["x", "--config-dir", &folder].into_iter().chain(more.split_whitespace());
        Line::try_parse_from(words).unwrap().global
    }

    #[tokio::test]
    async fn a_login_stores_server_and_token_for_later_commands_and_a_logout_forgets_them() {
        let folder = tempfile::tempdir().unwrap();
        let (output, _) = output(true);
        let server = Fake::default().start_at().await;
        let token = Secret::from_random(SecretKind::Operator, [7; 32]).expose();
        let at = global(folder.path(), &format!("--server {server} --token {token} --profile north"));
        login(LoginArgs { url: None }, &at, &output).await.unwrap();

        let later = global(folder.path(), "--profile north");
        let profile = chosen(&later).unwrap().unwrap();
        assert_eq!((profile.server.url(), profile.token.expose().as_str()), (&server, token.as_str()));
        assert!(!format!("{profile:?}").contains(&token));
        let used = resolved(&later).unwrap();
        assert_eq!((used.server.unwrap().url(), used.token.unwrap().expose()), (&server, &token));
        let elsewhere = resolved(&global(folder.path(), "--profile north --server http://127.0.0.1:9")).unwrap();
        assert!(elsewhere.token.is_none(), "another coordinator must not learn the token");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = folder.path().join(FILE).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(chosen(&global(folder.path(), "")).unwrap().is_none(), "nobody chose it");
        assert_eq!(chosen(&global(folder.path(), "--profile south")).unwrap_err().exit_code(), 3);
        logout(&later, &output).unwrap();
        assert!(chosen(&later).is_err());
    }

    #[tokio::test]
    async fn a_token_that_does_not_work_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let token = Secret::from_random(SecretKind::Operator, [7; 32]).expose();
        let at = global(folder.path(), &format!("--server http://127.0.0.1:1 --token {token}"));
        login(LoginArgs { url: None }, &at, &output(true).0).await.expect_err("nobody listens");
        assert!(!folder.path().join(FILE).exists());
    }
}
