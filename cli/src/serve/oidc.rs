//! The settings of an identity provider, which belong together.

use std::str::FromStr;

use serde::Deserialize;
use tributary_protocol::sealed::Sealed;
use tributary_server::people::{GroupRole, OidcSettings};

use crate::error::CliError;
use crate::units::HttpUrl;

const SCOPES_DEFAULT: &str = "openid profile email";
const GROUPS_CLAIM_DEFAULT: &str = "groups";

/// `GROUP=ROLE`, or `GROUP=ROLE@POPULATION`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct RoleOfGroup(GroupRole);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group's role is GROUP=viewer, =operator or =admin, and for one population GROUP=ROLE@POPULATION")]
pub(super) struct RoleOfGroupError;

impl FromStr for RoleOfGroup {
    type Err = RoleOfGroupError;

    fn from_str(text: &str) -> Result<Self, RoleOfGroupError> {
        // Groups may be paths or names of directories, with `=` in them.
        let (group, role) = text.rsplit_once('=').filter(|(group, _)| !group.is_empty()).ok_or(RoleOfGroupError)?;
        let (role, population) = match role.split_once('@') {
            Some((role, population)) => (role, Some(population.parse().map_err(|_| RoleOfGroupError)?)),
            None => (role, None),
        };
        let role = role.parse().map_err(|_| RoleOfGroupError)?;
        Ok(Self(GroupRole { group: group.to_owned(), role, population }))
    }
}

impl TryFrom<String> for RoleOfGroup {
    type Error = RoleOfGroupError;

    fn try_from(text: String) -> Result<Self, RoleOfGroupError> {
        text.parse()
    }
}

/// What was set of the provider.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) issuer: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<Sealed<String>>,
    pub(super) public_url: Option<HttpUrl>,
    pub(super) scopes: Option<String>,
    pub(super) groups_claim: Option<String>,
    pub(super) roles: Option<Vec<RoleOfGroup>>,
}

impl Given {
    /// All of it, or none.
    pub(super) fn settings(self) -> Result<Option<OidcSettings>, CliError> {
        let Self { issuer, client_id, client_secret, public_url, scopes, groups_claim, roles } = self;
        match (issuer, client_id, client_secret, public_url, roles.filter(|roles| !roles.is_empty())) {
            (None, None, None, None, None) => Ok(None),
            (Some(issuer), Some(client_id), Some(client_secret), Some(public_url), Some(roles)) => {
                issuer.parse::<HttpUrl>().map_err(|error| CliError::BadSetting(format!("oidc_issuer: {error}")))?;
                Ok(Some(OidcSettings {
                    issuer,
                    client_id,
                    client_secret,
                    public_url: public_url.url().clone(),
                    scopes: scopes.unwrap_or_else(|| SCOPES_DEFAULT.into()),
                    groups_claim: groups_claim.unwrap_or_else(|| GROUPS_CLAIM_DEFAULT.into()),
                    roles: roles.into_iter().map(|RoleOfGroup(role)| role).collect(),
                }))
            }
            _ => Err(CliError::BadSetting(
                "an identity provider needs oidc_issuer, oidc_client_id, oidc_client_secret, oidc_public_url and oidc_roles"
                    .into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::state::Role;

    use super::*;

    #[test]
    fn groups_have_roles_for_all_or_for_one_population() {
        let parsed = |text: &str| text.parse::<RoleOfGroup>().map(|RoleOfGroup(role)| role);
        let all = GroupRole { group: "/ml/team".into(), role: Role::Operator, population: None };
        assert_eq!(parsed("/ml/team=operator"), Ok(all));
        let one = GroupRole {
            group: "cn=doctors,dc=x".into(),
            role: Role::Viewer,
            population: Some("ward-7".parse().unwrap()),
        };
        assert_eq!(parsed("cn=doctors,dc=x=viewer@ward-7"), Ok(one));
        for wrong in ["", "team", "=viewer", "team=root", "team=viewer@", "team=viewer@a b"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_provider_is_given_as_a_whole_or_not_at_all() {
        let given = || Given {
            issuer: Some("https://id.example.org".into()),
            client_id: Some("tributary".into()),
            client_secret: Some("5ecret".into()),
            public_url: Some("https://fl.example.org".parse().unwrap()),
            scopes: None,
            groups_claim: None,
            roles: Some(vec!["team=admin".parse().unwrap()]),
        };
        let settings = given().settings().unwrap().unwrap();
        assert_eq!((settings.scopes.as_str(), settings.groups_claim.as_str()), (SCOPES_DEFAULT, GROUPS_CLAIM_DEFAULT));
        assert!(!format!("{settings:?}").contains("5ecret"));
        for part in [
            Given { issuer: None, ..given() },
            Given { client_secret: None, ..given() },
            Given { public_url: None, ..given() },
            Given { roles: Some(Vec::new()), ..given() },
            Given { issuer: Some("id.example.org".into()), ..given() },
        ] {
            assert!(part.settings().is_err());
        }
        let none =
            Given { issuer: None, client_id: None, client_secret: None, public_url: None, roles: None, ..given() };
        assert!(none.settings().unwrap().is_none());
    }
}
