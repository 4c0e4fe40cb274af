//! Settings of a client, and what they become.

use tributary_protocol::id::Secret;

use super::*;

fn token() -> String {
    Secret::from_random(SecretKind::Enrolment, [1; 32]).expose()
}

#[test]
fn plain_http_to_another_machine_must_be_allowed() {
    let exposed = Client::builder("http://fl.example.org", token()).build();
    assert!(matches!(exposed, Err(ClientError::Exposed(server)) if server == "http://fl.example.org"));
    assert!(Client::builder("http://fl.example.org", token()).allow_plaintext().build().is_ok());
}

#[test]
fn a_token_that_names_a_ca_does_not_leave_over_plain_http() {
    let pinned = format!("{}_ca_{}", token(), "09".repeat(32));
    let build = |server: &str| Client::builder(server, &pinned).allow_plaintext().build();
    assert!(matches!(build("http://fl.example.org"), Err(ClientError::Exposed(_))));
    assert!(build("https://fl.example.org").is_ok() && build("http://127.0.0.1:1").is_ok());
}

#[test]
fn a_builder_names_the_wrong_setting_and_touches_nothing() {
    let build = |server: &str, token: &str| Client::builder(server, token).state_dir("/nonexistent/x").build();
    assert!(build("http://127.0.0.1:1", &token()).is_ok());
    assert!(matches!(build("127.0.0.1:1", &token()), Err(ClientError::BadServer(_))));
    assert!(matches!(build("http://", &token()), Err(ClientError::BadServer(_))));
    assert!(matches!(build("https://a", "secret"), Err(ClientError::BadToken)));
    let operator = Secret::from_random(SecretKind::Operator, [1; 32]).expose();
    assert!(matches!(build("https://a", &operator), Err(ClientError::BadToken)));
    let long = Client::builder("https://a", token()).attribute("x", "y".repeat(1000)).build();
    assert!(matches!(long, Err(ClientError::Setup(_))));
    let kind = Client::builder("https://a", token()).sdk("a kind\u{1b}").build();
    assert!(matches!(kind, Err(ClientError::Setup(_))));
}

/// What a builder has of these settings; without its store and what the app brings as code.
fn facts(builder: &Builder) -> impl PartialEq + fmt::Debug + use<'_> {
    let Builder { server, enrolment_token, attributes, sdk, wait, checkpoint_every, ca, .. } = builder;
    (server, enrolment_token, attributes, sdk, wait, checkpoint_every, ca, builder.allows_plaintext)
}

#[test]
fn settings_that_are_left_out_have_the_defaults_of_the_builder() {
    let (settings, builder) = (Settings::new("https://a", "t"), Client::builder("https://a", "t"));
    assert_eq!(facts(&settings.into()), facts(&builder));
    let settings: Settings = serde_json::from_str(r#"{ "server": "https://a", "token": "t" }"#).unwrap();
    assert_eq!(facts(&settings.into()), facts(&builder));
}

#[cfg(feature = "native")]
#[test]
fn every_setting_reaches_the_builder_in_both_spellings() {
    let spelt =
        [("wait_ms", "allow_plaintext", "state_dir", "ca_pem"), ("waitMs", "allowPlaintext", "stateDir", "caPem")];
    for (wait_ms, allow_plaintext, state_dir, ca_pem) in spelt {
        let text = serde_json::json!({
            "server": "https://a", "token": "t", "attributes": { "site": "north" }, "sdk": "c",
            wait_ms: 250, allow_plaintext: true, state_dir: "here", ca_pem: "a PEM",
        });
        let builder: Builder = serde_json::from_value::<Settings>(text).unwrap().into();
        let expected = Client::builder("https://a", "t").attribute("site", "north").sdk("c").ca_pem("a PEM");
        let expected = expected.wait(Duration::from_millis(250)).allow_plaintext().state_dir("here");
        assert_eq!(facts(&builder), facts(&expected));
        assert_eq!(format!("{builder:?}"), format!("{expected:?}"), "the folder");
    }
}

#[test]
fn an_unknown_setting_is_named_and_the_token_is_not_printed() {
    let error = serde_json::from_str::<Settings>(r#"{ "server": "a", "token": "t", "wait": 3 }"#).unwrap_err();
    assert!(error.to_string().contains("unknown field `wait`"), "{error}");
    assert!(!format!("{:?}", Settings::new("a", "5ecret")).contains("5ecret"));
}
