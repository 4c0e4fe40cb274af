//! Calls of a client that the coordinator may not know any more, and its check-in.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::{CheckInRequest, CheckInResponse, DeviceState, WAIT_MS_MAX};
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::update::CodecName;

use super::context::Context;
use super::step::unreadable;
use crate::error::ClientError;
use crate::store::state::Identity;
use crate::transport::received::CheckInAnswer;

/// A check-in that says what every client says, of a client that takes the simplest work only.
pub(crate) fn plain_request(context: &Context, state: DeviceState) -> CheckInRequest {
    CheckInRequest {
        attributes: context.attributes.clone(),
        state,
        sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
        sdk: Some(context.sdk.clone()),
        codecs: CodecName::ALL.to_vec(),
        abilities: Abilities::ALL,
        schema: None,
        sets: ExampleSets::default(),
        answers: false,
        masks: false,
        signs: false,
        channels: BTreeMap::new(),
        relay: None,
        wait_ms: 0,
    }
}

/// How long a check-in may be held at most, in milliseconds, for a client that wants to wait this long.
pub(crate) fn wait_ms(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).min(WAIT_MS_MAX)
}

/// Checks in for a relay. Work that cannot be read is given back.
pub(crate) async fn check_in(
    context: &Context,
    identity: &mut Identity,
    request: &CheckInRequest,
) -> Result<CheckInResponse, ClientError> {
    match ask_for_work(context, identity, request).await? {
        CheckInAnswer::Assigned(received) => Ok(CheckInResponse::Assigned(Box::new(received.assignment))),
        CheckInAnswer::Retry { retry_after_ms, waits_for } => Ok(CheckInResponse::Retry { retry_after_ms, waits_for }),
        CheckInAnswer::Unreadable { assignment, why } => {
            let report = unreadable(&why);
            if let Err(error) = context.coordinator.post_failure(&identity.secret, assignment, &report).await {
                tracing::warn!(%error, "the coordinator does not learn that its work cannot be read");
            }
            Err(ClientError::BadAnswer(why))
        }
    }
}

/// Checks in, and renews what the coordinator asks to renew. A client that masks says whether it can sign as well.
pub(crate) async fn ask_for_work(
    context: &Context,
    identity: &mut Identity,
    request: &CheckInRequest,
) -> Result<CheckInAnswer, ClientError> {
    let call = |identity: Identity| async move {
        let signs = request.masks && context.can_sign(&identity);
        context.coordinator.check_in(&identity.secret, &CheckInRequest { signs, ..request.clone() }).await
    };
    let checked_in = as_known(context, identity, call).await?;
    Box::pin(context.renew(identity, &checked_in.renew)).await;
    context.channels.hear(&checked_in.channels);
    Ok(checked_in.answer)
}

/// Makes a call as this client. If the coordinator does not know the client, it enrols again and repeats the call
/// once.
pub(crate) async fn as_known<T, F>(
    context: &Context,
    identity: &mut Identity,
    call: impl Fn(Identity) -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    // Boxed: the threads of apps have small stacks, and the future of a session contains this one.
    match Box::pin(call(identity.clone())).await {
        Err(error) if may_enrol_again(identity, &error) => {
            *identity = Box::pin(context.identity_after(identity)).await?;
            Box::pin(call(identity.clone())).await
        }
        answer => answer,
    }
}

/// Whether the coordinator does not know the client by what it authenticates with: its database is another one than at
/// the enrolment, the certificate has expired, or the coordinator now demands one.
fn may_enrol_again(identity: &Identity, error: &ClientError) -> bool {
    // A client whose certificate does not reach the coordinator, because of a proxy for example, would enrol for ever.
    let lacks_one = error.is(ProblemType::CertificateRequired) && identity.certificate.is_none();
    let kinds = [ProblemType::Unauthorized, ProblemType::CertificateInvalid, ProblemType::CertificateExpired];
    lacks_one || kinds.iter().any(|kind| error.is(*kind))
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::{ClientId, Secret, SecretKind};
    use tributary_protocol::problem::Problem;

    use super::*;

    #[test]
    fn a_client_that_is_not_known_enrols_again() {
        let identity = |certificate: Option<&str>| Identity {
            server: "http://a".into(),
            client: ClientId::from_random([1; 16]),
            secret: Secret::from_random(SecretKind::Client, [2; 32]),
            population: "p".parse().unwrap(),
            certificate: certificate.map(str::to_owned),
            authority: None,
        };
        let refused = |kind| ClientError::Refused(Box::new(Problem::new(kind, "a detail")));
        let cases = [
            (refused(ProblemType::Unauthorized), [true, true]),
            (refused(ProblemType::CertificateRequired), [true, false]),
            (refused(ProblemType::CertificateInvalid), [true, true]),
            (refused(ProblemType::CertificateExpired), [true, true]),
            (refused(ProblemType::Forbidden), [false, false]),
            (refused(ProblemType::ClientRevoked), [false, false]),
            (ClientError::Unreachable("nobody answers".into()), [false, false]),
            (ClientError::BadAnswer("a login page".into()), [false, false]),
        ];
        for (error, expected) in cases {
            let may = [None, Some("a certificate")].map(|pem| may_enrol_again(&identity(pem), &error));
            assert_eq!(may, expected, "without and with a certificate: {error}");
        }
    }
}
