use std::time::Duration;

use super::*;
use clap::Parser;
use tributary_server::devices::ClientAuth;
use tributary_server::metrics::MetricsAccess;
use tributary_server::notify::Format;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArgs,
}

fn settings_of(line: &str) -> Result<Settings, CliError> {
    Line::try_parse_from(std::iter::once("serve").chain(line.split_whitespace())).unwrap().serve.resolve()
}

/// The settings of a file with this text, and of a command line beside it.
fn settings_of_file(text: &str, line: &str) -> Result<Settings, CliError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serve.toml");
    std::fs::write(&path, text).unwrap();
    settings_of(&format!("--config {} {line}", path.display()))
}

#[test]
fn the_command_line_counts_before_the_file_and_the_file_before_the_defaults() {
    let text = "listen = \"127.0.0.1:1\"\ndatabase = \"a.db\"\nlog_format = \"json\"\n";
    let settings = settings_of_file(text, "--database b.db").unwrap();
    assert_eq!(settings.listen.port(), 1);
    assert_eq!((settings.coordinator.database.expose().as_str(), settings.log.as_str()), ("b.db", LOG_DEFAULT));
    assert_eq!(settings.log_format, LogFormat::Json);
    assert_eq!(settings_of("").unwrap().listen, "127.0.0.1:7300".parse().unwrap());
}

#[test]
fn a_value_is_written_alike_in_a_flag_and_in_the_file() {
    let flags = settings_of("--lease 90s --upload-memory 64MiB --otlp-endpoint http://h:4318 --metrics off").unwrap();
    let text = "lease = '90s'\nupload_memory = '64MiB'\notlp_endpoint = 'http://h:4318'\nmetrics = 'off'";
    let file = settings_of_file(text, "").unwrap();
    for settings in [flags, file] {
        assert_eq!(settings.coordinator.lease, Duration::from_secs(90));
        assert_eq!(settings.coordinator.upload_memory, 64 << 20);
        assert_eq!(settings.otlp_endpoint.unwrap().url().port(), Some(4318));
        assert_eq!(settings.coordinator.metrics, MetricsAccess::Off);
    }
}

#[test]
fn limits_of_callers_are_set_one_by_one() {
    let limits = |line: &str| settings_of(line).unwrap().coordinator.limits;
    let defaults = Limits::default();
    assert_eq!(limits(""), defaults);
    assert_eq!(limits("--client-requests-per-minute 60"), Limits { requests_per_minute: 60, ..defaults });
    assert_eq!(limits("--held-per-address 7"), Limits { held_per_address: 7, ..defaults });
    assert_eq!(limits("--checkins-per-second 400"), Limits { checkins_per_second: 400, ..defaults });
    assert_eq!(limits("--link-bytes-per-second 9000"), Limits { link_bytes_per_second: 9_000, ..defaults });
    assert_eq!(limits("--feeds-per-operator 3"), Limits { feeds_per_operator: 3, ..defaults });
}

#[test]
fn operators_have_an_address_of_their_own() {
    let settings = settings_of("--listen-operators 127.0.0.1:7301").unwrap();
    assert_eq!((settings.listen_operators.unwrap().port(), settings.coordinator.clients_url), (7301, None));
    let everywhere = "--insecure-plaintext --listen 0.0.0.0:7300 --listen-operators 127.0.0.1:7301";
    let refused = settings_of(everywhere).unwrap_err().to_string();
    assert!(refused.contains("clients_url"), "{refused}");
    let named = settings_of(&format!("{everywhere} --clients-url https://fl.example.org/")).unwrap();
    assert_eq!(named.coordinator.clients_url.as_deref(), Some("https://fl.example.org"));
    let exposed = settings_of("--listen-operators 10.0.0.7:7301").unwrap_err().to_string();
    assert!(exposed.starts_with("10.0.0.7:7301 can be reached"), "{exposed}");
}

#[test]
fn pages_of_other_origins_are_named_one_by_one() {
    let of = |line: &str| settings_of(line).unwrap().coordinator.cors_origins;
    assert_eq!(of(""), []);
    let (app, local) = ("https://app.example.org", "http://localhost:5173");
    let both = [app, local].map(|origin| origin.parse().unwrap());
    assert_eq!(of(&format!("--cors-origin {app} --cors-origin {local}")), both);
    let file = settings_of_file(&format!("cors_origin = ['{app}', '{local}']"), "").unwrap();
    assert_eq!(file.coordinator.cors_origins, both);
    for origin in ["*", "https://app.example.org/", "app.example.org", "https://*.example.org"] {
        let refused = Line::try_parse_from(["serve", "--cors-origin", origin]).err().unwrap().to_string();
        assert!(refused.contains("is no origin of pages"), "{refused}");
        let refused = settings_of_file(&format!("cors_origin = ['{origin}']"), "").unwrap_err().to_string();
        assert!(refused.contains("is no origin of pages"), "{refused}");
    }
}

#[test]
fn plain_http_leaves_this_machine_only_by_consent() {
    let error = settings_of("--listen 0.0.0.0:7300").unwrap_err();
    assert!(error.cause::<PlaintextError>().is_some() && error.hint().is_some(), "{error}");
    for line in ["--listen [::1]:7300", "--listen 127.0.0.2:7300", "--listen 0.0.0.0:7300 --insecure-plaintext"] {
        assert_eq!(settings_of(line).unwrap().coordinator.tls, None, "{line}");
    }
    assert!(settings_of_file("listen = '0.0.0.0:1'\ninsecure_plaintext = true", "").is_ok());
    assert!(settings_of("--listen 0.0.0.0:7300 --tls-dev").unwrap().coordinator.tls.is_some());
}

#[test]
fn a_certificate_comes_from_files_or_is_made() {
    let tls = |line: &str| settings_of(line).map(|settings| settings.coordinator.tls);
    let files = TlsSource::Files { certificate: "c".into(), key: "k".into(), ca: None };
    assert_eq!(tls("--tls-cert c --tls-key k").unwrap(), Some(files));
    let names = vec!["fl.example.org".to_owned(), "10.0.0.1".to_owned()];
    let dev = TlsSource::Dev { directory: "data/tributary-tls".into(), names: names.clone() };
    let line = "--tls-dev --database data/x.db --tls-name fl.example.org --tls-name 10.0.0.1";
    assert_eq!(tls(line).unwrap(), Some(dev));
    let acme = AcmeSettings {
        directory: "tributary-tls".into(),
        domains: vec!["fl.example.org".into(), "b.example.org".into()],
        contact: Some("a@example.org".into()),
        server: LETS_ENCRYPT.into(),
        server_ca: None,
    };
    let line = "--acme-domain fl.example.org,b.example.org --acme-contact a@example.org";
    assert_eq!(tls(line).unwrap(), Some(TlsSource::Acme(acme)));
    let text = "tls_dev = true\ntls_dir = 'a'\ntls_name = ['fl.example.org', '10.0.0.1']";
    let from_file = settings_of_file(text, "").unwrap().coordinator.tls;
    assert_eq!(from_file, Some(TlsSource::Dev { directory: "a".into(), names }));
    for (line, message) in [
        ("--tls-cert c", "belong together"),
        ("--tls-key k", "belong together"),
        ("--tls-dev --tls-cert c --tls-key k", "choose one"),
        ("--tls-dev --acme-domain fl.example.org", "choose one"),
        ("--acme-contact a@example.org", "are for acme_domain"),
        ("--tls-dir a", "tls_dir is for"),
        ("--tls-ca c", "which is missing"),
        ("--tls-dev=false --tls-name a", "tls_name is for tls_dev"),
        ("--tls-dev --tls-name a/b", "neither a host name nor an address"),
    ] {
        let error = tls(line).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}

#[test]
fn clients_are_identified_by_certificates_only_with_tls_and_webhooks_are_encrypted() {
    let devices = |line: &str| settings_of(line).map(|settings| settings.coordinator.devices);
    let plain = devices("").unwrap();
    assert_eq!((plain.client_auth, plain.attestation.is_none()), (ClientAuth::Bearer, true));
    let line =
        "--tls-dev --client-auth certificate --client-certificate-life 12h --attestation-url https://a.example.org/x";
    let all = devices(line).unwrap();
    assert_eq!((all.client_auth, all.certificate_life), (ClientAuth::Certificate, Duration::from_secs(12 * 3600)));
    let hook = all.attestation.unwrap();
    assert_eq!((hook.url.path(), hook.timeout), ("/x", Duration::from_secs(10)));
    let text =
        "tls_dev = true\nclient_auth = 'either'\nattestation_url = 'http://127.0.0.1:1'\nattestation_timeout = '1s'";
    let from_file = settings_of_file(text, "").unwrap().coordinator.devices;
    assert_eq!((from_file.client_auth, from_file.attestation.unwrap().timeout.as_secs()), (ClientAuth::Either, 1));
    for (line, message) in [
        ("--client-auth either", "client_auth needs TLS"),
        ("--tls-dev --client-certificate-life 7d", "is for client_auth"),
        ("--tls-dev --client-auth either --client-certificate-life 59min", "from 1h to 3650d"),
        ("--attestation-timeout 1s", "is for attestation_url"),
        ("--attestation-url http://a.example.org", "must be https"),
    ] {
        let error = devices(line).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}

#[test]
fn an_unknown_key_a_wrong_unit_and_a_wrong_token_are_named_and_the_token_is_not_shown() {
    for (text, named) in [
        ("databas = \"a.db\"\n", "serve.toml: line 1: databas: "),
        ("upload_memory = 64\n", "serve.toml: line 1: upload_memory: "),
        ("upload_memory = \"8GiB\"\n", "serve.toml: line 1: upload_memory: it must be from 1MiB to 4GiB"),
        ("lease = \"10\"\n", "serve.toml: line 1: lease: a duration is "),
        ("metrics = \"all\"\n", "serve.toml: line 1: metrics: unknown variant `all`"),
    ] {
        let error = settings_of_file(text, "").unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let text = "operator_token = \"tributary_operator_5ecret\"";
    for error in [
        settings_of("--operator-token tributary_operator_5ecret").unwrap_err(),
        settings_of_file(text, "").unwrap_err(),
    ] {
        assert!(!format!("{error} {error:?}").contains("5ecret"));
    }
}

/// Goal: the example can be used as it is, and is complete. Method: keys that are commented out are uncommented.
#[test]
fn the_example_file_is_valid_and_holds_every_setting() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    settings_of(&format!("--config {}", path.display())).unwrap();
    let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let uncommented: Vec<&str> =
        text.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line)).collect();
    let uncommented = uncommented.join("\n");
    let table: toml::Table = toml::from_str(&uncommented).unwrap();
    toml::from_str::<ServeSettings>(&uncommented).unwrap();
    let command = ServeSettings::augment_args(clap::Command::new("serve"));
    for argument in command.get_arguments() {
        assert!(table.contains_key(argument.get_id().as_str()), "{}", argument.get_id());
    }
}

#[test]
fn a_webhook_has_an_address_and_a_secret() {
    let settings = settings_of("--notify-url https://h.example.org/x --notify-secret 5ecret --notify-abandoned 5");
    let notify = settings.unwrap().coordinator.notify.unwrap();
    let webhook = notify.everything.as_ref().unwrap();
    assert_eq!((webhook.url.as_str(), webhook.format, notify.abandoned), ("https://h.example.org/x", Format::Json, 5));
    assert!(!format!("{notify:?}").contains("5ecret"));
    let file = "notify_url = 'http://h:1/'\nnotify_secret = '5ecret'";
    assert_eq!(settings_of_file(file, "").unwrap().coordinator.notify.unwrap().abandoned, ABANDONED_DEFAULT);
    assert!(settings_of("").unwrap().coordinator.notify.is_none());
    let line = "--notify-population shop=slack+https://h:1/a=b --notify-population ward=teams+http://h:2/ \
                --notify-secret 5ecret";
    let file = "notify_population = ['shop=slack+https://h:1/a=b', 'ward=teams+http://h:2/']\nnotify_secret = '5ecret'";
    for notify in [settings_of(line), settings_of_file(file, "")] {
        let notify = notify.unwrap().coordinator.notify.unwrap();
        let webhooks = notify.populations.iter().map(|(name, to)| (name.as_str(), to.url.as_str(), to.format));
        let expected = [("shop", "https://h:1/a=b", Format::Slack), ("ward", "http://h:2/", Format::Teams)];
        assert_eq!((webhooks.collect::<Vec<_>>(), notify.everything), (expected.into(), None));
    }
    for line in ["--notify-url http://h:1", "--notify-secret 5ecret", "--notify-abandoned 2"] {
        assert!(settings_of(line).is_err(), "{line}");
    }
}
