use super::*;

const DIGITS: &str = r#"
    name = "digits"
    population = "demo"
    seed = 7

    [model]
    input = [64]
    layers = [
      { kind = "linear", out_features = 32 },
      { kind = "relu" },
      { kind = "linear", out_features = 10 },
    ]

    [training]
    epochs = 1
    batch_size = 10
    optimizer = { kind = "sgd", learning_rate = 0.1 }

    [round]
    updates_goal = 10
    over_selection = 1.3

    [aggregation]
    rule = "fed_avg"
"#;

#[test]
fn toml_and_json_are_the_same_job() {
    let job = JobFile::parse(DIGITS).unwrap();
    let json = serde_json::to_string(&job).unwrap();
    assert_eq!(JobFile::parse(&json).unwrap(), job);
    assert_eq!(JobFile::parse(&toml::to_string(&job).unwrap()).unwrap(), job);
    assert_eq!(job.round.cohort_size(), 13);
}

#[test]
fn a_job_reads_back_from_its_text() {
    let mut job = JobFile::parse(include_str!("../../../examples/digits.toml")).unwrap();
    job.schedule = Some(Schedule { rounds: "* 3 * * *".into(), time_zone: "UTC".into() });
    job.eligibility.attributes.insert("a b".into(), "\"quoted\"\nlines".into());
    job.stop.accuracy = Some(0.97);
    assert!(!job.text().starts_with('{'));
    assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    job.seed = Some(Seed(u64::MAX));
    assert_eq!(JobFile::parse(&job.text()).unwrap(), job, "too large for TOML");
}

#[test]
fn the_example_file_is_a_job_and_its_defaults_are_the_defaults() {
    let job = JobFile::parse(include_str!("../../../examples/digits.toml")).unwrap();
    assert_eq!(job.update, UpdatePolicy::default());
    assert_eq!(job.download, Download::default());
    assert_eq!(job.round, RoundPolicy::default());
    assert_eq!(job.eligibility, Eligibility::default());
    assert_eq!(job.aggregation, Aggregation::default());
    assert_eq!(job.retention, Retention::default());
    let evaluation = job.evaluation.unwrap();
    let default: EvaluationPolicy = toml::from_str("").unwrap();
    assert_eq!(EvaluationPolicy { attributes: BTreeMap::new(), ..evaluation }, default);
}

#[test]
fn ten_percent_of_ten_is_one_client() {
    let policy = RoundPolicy { updates_goal: 10, over_selection: 1.1, ..RoundPolicy::default() };
    assert_eq!(policy.cohort_size(), 11);
}

#[test]
fn a_wrong_key_or_number_is_named() {
    let cases = [
        ("epochs = 1", "epoch = 1", "epoch"),
        ("updates_goal = 10", "updates_goal = 0", "[round] updates_goal"),
        ("updates_goal = 10", "updates_goal = 4", "[round] updates_min"),
        ("over_selection = 1.3", "over_selection = 0.5", "[round] over_selection"),
        ("over_selection = 1.3", "deadline_ms = 0", "[round] deadline_ms"),
        ("out_features = 10", "out_features = 0", "layers[2]"),
        ("kind = \"relu\"", "kind = \"rellu\"", "rellu"),
        ("learning_rate = 0.1", "learning_rate = -0.1", "learning_rate"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[stop]\naccuracy = 0.9", "[stop] accuracy"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[stop]\nmetric = 'auc'\nat_least = 0.9", "[stop] metric"),
        (
            "rule = \"fed_avg\"",
            "rule = \"fed_avg\"\n[evaluation]\n[stop]\nmetric = 'auc'",
            "[stop] metric must be given with exactly one of at_least and at_most",
        ),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[evaluation]\n[stop]\nat_most = 1", "[stop] metric"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[stop]\nmetric = 'AUC'", "\"AUC\" is no name of a metric"),
        (
            "rule = \"fed_avg\"",
            "rule = \"fed_avg\"\n[evaluation]\nwhere = 'coordinator'\nreports_goal = 2",
            "no client takes part",
        ),
        ("name = \"digits\"", "name = \"di gits\"", "di gits"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[update]\ncodec = 'int7'", "unknown variant `int7`"),
        (
            "rule = \"fed_avg\"",
            "rule = \"fed_avg\"\n[update]\ncodec = { name = 'int8', blok = 64 }",
            "unknown field `blok`, expected `block`",
        ),
        (
            "rule = \"fed_avg\"",
            "rule = \"fed_avg\"\n[update]\ncodec = { name = 'int4', block = 0 }",
            "codec int4: block must be a multiple of 8",
        ),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[download]\ncodec = 'int4'", "unknown variant `int4`"),
        (
            "rule = \"fed_avg\"",
            "rule = \"fed_avg\"\n[download]\ncodec = 'f16'\ndelta = true",
            "[download] delta must be false",
        ),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[schedule]\nrounds = ''", "[schedule] rounds"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[schedule]\ntime_zone = 'UTC'", "rounds"),
        ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[retention]\nmodels = { last = 0 }", "[retention] models"),
    ];
    for (from, to, named) in cases {
        let error = JobFile::parse(&DIGITS.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(named), "{to}: {error}");
    }
}

#[test]
fn a_codec_is_a_name_or_a_table_with_settings() {
    let codec = |codec: &str| {
        let job = JobFile::parse(&format!("{DIGITS}\n[update]\ncodec = {codec}")).unwrap();
        assert_eq!(JobFile::parse(&toml::to_string(&job).unwrap()).unwrap(), job);
        job.update.codec
    };
    assert_eq!(codec("'int8'"), codec("{ name = 'int8' }"));
    assert_eq!(codec("{ name = 'int8', block = 128 }").to_string(), r#"{"name":"int8","block":128}"#);
}

#[test]
fn the_coordinator_evaluates_lists_of_layers_of_a_bounded_size() {
    let text = format!("{DIGITS}\n[evaluation]\nwhere = 'coordinator'\n[stop]\nmetric = 'auc'\nat_most = 0.5");
    let job = JobFile::parse(&text).unwrap();
    assert_eq!(job.evaluation.as_ref().unwrap().place, EvaluationPlace::Coordinator);
    assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    assert!(job.stop.is_measured() && job.stop.is_reached(0.5) && !job.stop.is_reached(0.6));
    let own = serde_json::from_str(r#"{"parameters": [{"name": "w", "shape": [2]}]}"#).unwrap();
    let error = JobFile { model: own, ..job.clone() }.check().unwrap_err().to_string();
    assert!(error.contains("[evaluation] where must be \"clients\""), "{error}");
    let large = r#"{"input": [8192], "layers": [{"kind": "linear", "out_features": 8192}]}"#;
    let error = JobFile { model: serde_json::from_str(large).unwrap(), ..job }.check().unwrap_err().to_string();
    assert!(error.contains("33554432"), "{error}");
}

#[test]
fn a_huge_job_file_is_refused_unread() {
    assert!(matches!(JobFile::parse(&" ".repeat(JOB_FILE_BYTES_MAX + 1)), Err(JobFileError::TooLarge(_))));
}
