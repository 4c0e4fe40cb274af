//! Certificates by ACME (RFC 8555). The challenge is TLS-ALPN-01 (RFC 8737): the CA connects to this listener, and
//! finds a certificate that only the holder of the account can make.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate};
use rustls::sign::CertifiedKey;
use tributary_protocol::hash::Sha256Hash;
use tributary_tls::x509::validity_ms;

use super::error::{AcmeError, TlsError};
use super::files::{certificates, expires_at_ms, unreadable, write_secret};
use super::identity::Identity;
use crate::runtime::lock::Locked;

/// The protocol of a connection that only wants the certificate of a challenge.
pub(super) const CHALLENGE: &[u8] = b"acme-tls/1";
/// Longest wait for the CA's verification, and for the certificate.
const ORDER_MAX: Duration = Duration::from_secs(120);
/// Pause after a failure; it doubles with each further one. Let's Encrypt allows five failures an hour.
const RETRY_MS: i64 = 10 * 60 * 1000;
const RETRY_DOUBLED_MAX: u32 = 5;

/// Where certificates come from, and for which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// Where account and certificate are stored; created when it does not exist.
    pub directory: PathBuf,
    /// Host names that lead to this listener.
    pub domains: Vec<String>,
    /// A mail address that the CA may write to.
    pub contact: Option<String>,
    /// The URL of the CA's directory.
    pub server: String,
    /// The private CA of that URL's own certificate, a PEM file.
    pub server_ca: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct Acme {
    settings: AcmeSettings,
    account_file: PathBuf,
    certificate_file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Certificates of open challenges, by domain.
    challenges: HashMap<String, Arc<CertifiedKey>>,
    failures: u32,
    /// After a failure.
    not_before_ms: i64,
}

impl Acme {
    /// With the stored certificate, or until there is one with a certificate that no client accepts.
    pub(super) fn open(settings: &AcmeSettings, now_ms: i64) -> Result<(Self, Identity), TlsError> {
        let directory = &settings.directory;
        let failed = |source| TlsError::File { action: "make", path: directory.clone(), source };
        std::fs::create_dir_all(directory).map_err(failed)?;
        // A test server's certificate must not be used when the real one is chosen.
        let server = &Sha256Hash::of(settings.server.as_bytes()).to_string()[..8];
        let acme = Self {
            settings: settings.clone(),
            account_file: directory.join(format!("acme-account-{server}.json")),
            certificate_file: directory.join(format!("acme-certificate-{server}.pem")),
            state: Mutex::default(),
        };
        let identity = match acme.stored() {
            Ok(Some(identity)) if acme.is_for_all_domains(&identity) => identity,
            Ok(_) => acme.placeholder(now_ms)?,
            Err(error) => {
                tracing::warn!(%error, "the stored certificate is not used; another one is ordered");
                acme.placeholder(now_ms)?
            }
        };
        Ok((acme, identity))
    }

    /// A new certificate, if a third of the current one's time is left, or none that clients accept.
    pub(super) async fn renewed(&self, current: &CertifiedKey, now_ms: i64) -> Result<Option<Identity>, TlsError> {
        let is_due = current
            .cert
            .first()
            .and_then(|leaf| validity_ms(leaf))
            .is_none_or(|(from_ms, until_ms)| until_ms - now_ms < (until_ms - from_ms) / 3);
        if !is_due || now_ms < self.state.locked().not_before_ms {
            return Ok(None);
        }
        let ordered = self.order().await;
        let mut state = self.state.locked();
        state.challenges.clear();
        match ordered {
            Ok(identity) => {
                state.failures = 0;
                Ok(Some(identity))
            }
            Err(error) => {
                state.not_before_ms = now_ms + (RETRY_MS << state.failures.min(RETRY_DOUBLED_MAX));
                state.failures += 1;
                Err(error)
            }
        }
    }

    /// The certificate of a challenge, if the client asks for one.
    pub(super) fn challenged(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn()?;
        let asks = protocols.next() == Some(CHALLENGE) && protocols.next().is_none();
        self.state.locked().challenges.get(hello.server_name().filter(|_| asks)?).cloned()
    }

    async fn order(&self) -> Result<Identity, TlsError> {
        let account = self.account().await?;
        let domains: Vec<_> = self.settings.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&domains)).await.map_err(AcmeError::from)?;
        self.accept_challenges(&mut order).await?;
        let patience = RetryPolicy::default().timeout(ORDER_MAX);
        let status = order.poll_ready(&patience).await.map_err(AcmeError::from)?;
        if status != OrderStatus::Ready {
            return Err(AcmeError::NotVerified.into());
        }
        let key = order.finalize().await.map_err(AcmeError::from)?;
        let chain = order.poll_certificate(&patience).await.map_err(AcmeError::from)?;
        write_secret(&self.certificate_file, &(key + &chain))?;
        let identity = self.stored()?;
        identity.ok_or_else(|| self.wrong_content("it vanished".into()))
    }

    async fn accept_challenges(&self, order: &mut Order) -> Result<(), TlsError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(AcmeError::from)?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let domain = authorization.identifier().to_string();
            let challenge = authorization.challenge(ChallengeType::TlsAlpn01);
            let mut challenge = challenge.ok_or_else(|| AcmeError::NoChallenge(domain.clone()))?;
            let mut params = CertificateParams::new(vec![domain.clone()])?;
            let digest = challenge.key_authorization().digest();
            params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
            self.state.locked().challenges.insert(domain, Arc::new(self_signed(&params)?));
            challenge.set_ready().await.map_err(AcmeError::from)?;
        }
        Ok(())
    }

    /// The stored account, or a new one.
    async fn account(&self) -> Result<Account, TlsError> {
        let builder = match &self.settings.server_ca {
            Some(file) => Account::builder_with_root(file),
            None => Account::builder(),
        };
        let builder = builder.map_err(AcmeError::from)?;
        let file = &self.account_file;
        if file.exists() {
            let text =
                std::fs::read(file).map_err(|source| TlsError::File { action: "read", path: file.clone(), source })?;
            let credentials: AccountCredentials = serde_json::from_slice(&text)
                .map_err(|error| TlsError::Content { path: file.clone(), message: error.to_string() })?;
            return Ok(builder.from_credentials(credentials).await.map_err(AcmeError::from)?);
        }
        let contact = self.settings.contact.as_ref().map(|mail| format!("mailto:{mail}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let created = builder.create(&new, self.settings.server.clone(), None).await;
        let (account, credentials) = created.map_err(AcmeError::from)?;
        let text = serde_json::to_string(&credentials)
            .map_err(|error| TlsError::Content { path: file.clone(), message: error.to_string() })?;
        write_secret(file, &text)?;
        Ok(account)
    }

    /// `None`: there is none.
    fn stored(&self) -> Result<Option<Identity>, TlsError> {
        let file = &self.certificate_file;
        if !file.exists() {
            return Ok(None);
        }
        let key = PrivateKeyDer::from_pem_file(file).map_err(unreadable(file))?;
        let chain = certificates(file)?;
        let expires_at_ms = expires_at_ms(&chain).map_err(|message| self.wrong_content(message.into()))?;
        let certified = CertifiedKey::from_der(chain, key, &tributary_tls::provider())
            .map_err(|error| self.wrong_content(error.to_string()))?;
        Ok(Some(Identity { certified: Arc::new(certified), expires_at_ms }))
    }

    /// Whether the settings still name what the certificate is for.
    fn is_for_all_domains(&self, identity: &Identity) -> bool {
        let leaf = identity.certified.cert.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        leaf.is_some_and(|leaf| {
            self.settings.domains.iter().all(|domain| {
                ServerName::try_from(domain.as_str()).is_ok_and(|name| verify_server_name(&leaf, &name).is_ok())
            })
        })
    }

    /// A certificate of nobody, which ended in 1970.
    fn placeholder(&self, now_ms: i64) -> Result<Identity, TlsError> {
        let mut params = CertificateParams::new(self.settings.domains.clone())?;
        params.not_after = params.not_before;
        Ok(Identity { certified: Arc::new(self_signed(&params)?), expires_at_ms: now_ms })
    }

    fn wrong_content(&self, message: String) -> TlsError {
        TlsError::Content { path: self.certificate_file.clone(), message }
    }
}

fn self_signed(params: &CertificateParams) -> Result<CertifiedKey, TlsError> {
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // Without a look at the certificate, whose critical extension for a challenge rustls does not know.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], ring::sign::any_supported_type(&key)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn settings(directory: &Path, server: &str) -> AcmeSettings {
        AcmeSettings {
            directory: directory.to_owned(),
            domains: vec!["fl.example.org".into()],
            contact: None,
            server: server.into(),
            server_ca: None,
        }
    }

    /// A certificate with its key for these domains, valid for 90 days from `NOW_MS`.
    fn pem(domains: &[&str]) -> String {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(domains.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let params = params.as_mut().unwrap();
        params.not_before = time::OffsetDateTime::from_unix_timestamp(NOW_MS / 1000).unwrap();
        params.not_after = params.not_before + Duration::from_secs(90 * 86_400);
        key.serialize_pem() + &params.self_signed(&key).unwrap().pem()
    }

    #[tokio::test]
    async fn a_stored_certificate_is_used_for_its_domains_and_server_until_a_third_of_its_time_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let here = settings(directory.path(), "https://ca.invalid/dir");
        let (acme, placeholder) = Acme::open(&here, NOW_MS).unwrap();
        assert!(!acme.is_for_all_domains(&placeholder) || placeholder.expires_at_ms == NOW_MS);
        write_secret(&acme.certificate_file, &pem(&["fl.example.org"])).unwrap();
        let (acme, identity) = Acme::open(&here, NOW_MS).unwrap();
        let day_ms = 86_400_000;
        assert_eq!(identity.expires_at_ms, NOW_MS + 90 * day_ms);
        assert!(acme.renewed(&identity.certified, NOW_MS + 60 * day_ms).await.unwrap().is_none());

        let other_server = settings(directory.path(), "https://other.invalid/dir");
        assert_eq!(Acme::open(&other_server, NOW_MS).unwrap().1.expires_at_ms, NOW_MS);
        let more = AcmeSettings { domains: vec!["fl.example.org".into(), "b.example.org".into()], ..here };
        assert_eq!(Acme::open(&more, NOW_MS).unwrap().1.expires_at_ms, NOW_MS);
    }

    #[tokio::test]
    async fn a_failed_order_is_tried_again_after_growing_pauses() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path(), "https://127.0.0.1:1/dir");
        // Without it, the system's certificates would be needed.
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, pem(&["localhost"])).unwrap();
        settings.server_ca = Some(ca);
        let (acme, placeholder) = Acme::open(&settings, NOW_MS).unwrap();
        let mut now_ms = NOW_MS;
        for pause_ms in [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS] {
            let failed = acme.renewed(&placeholder.certified, now_ms).await;
            assert!(matches!(failed, Err(TlsError::Acme(AcmeError::Protocol(_)))), "{failed:?}");
            let tried = acme.renewed(&placeholder.certified, now_ms + pause_ms - 1).await;
            assert!(tried.unwrap().is_none());
            now_ms += pause_ms;
        }
    }
}
