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
    combine = "weighted_mean"
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
        ("[training]", "personal = ['head.*']\n[training]", "[model] personal: \"head.*\" matches no parameter"),
        ("[training]", "frozen = ['*']\n[training]", "[model] no parameter is shared"),
        (
            "[training]",
            "frozen = ['*.bias']\npersonal = ['layers.2.*']\n[training]",
            "[model] the parameter \"layers.2.bias\" is in frozen and in personal",
        ),
        ("epochs = 1", "epochs = 1\npersonal_epochs = 2", "[training] personal_epochs does not go with [model]"),
        ("epochs = 1", "epochs = 1\npartial_work = 1.0", "[training] `partial_work` must be above 0 and below 1"),
        (
            "over_selection = 1.3",
            "selection = { kind = 'poisson', rate = 0.0 }",
            "[round] selection rate must be above 0",
        ),
        (
            "over_selection = 1.3",
            "selection = { kind = 'utility', exploration = 2.0 }",
            "[round] selection exploration must be 0 to 1",
        ),
        ("learning_rate = 0.1", "learning_rate = -0.1", "learning_rate"),
        ("combine = \"weighted_mean\"", "combine = \"weighted_mean\"\n[stop]\naccuracy = 0.9", "[stop] accuracy"),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[stop]\nmetric = 'auc'\nat_least = 0.9",
            "[stop] metric",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[evaluation]\n[stop]\nmetric = 'auc'",
            "[stop] metric must be given with exactly one of at_least and at_most",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[evaluation]\n[stop]\nat_most = 1",
            "[stop] metric",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[stop]\nmetric = 'AUC'",
            "\"AUC\" is no name of a metric",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[evaluation]\nwhere = 'coordinator'\nreports_goal = 2",
            "no client takes part",
        ),
        ("name = \"digits\"", "name = \"di gits\"", "di gits"),
        ("epochs = 1", "epochs = \"five\"", "expected a whole number, 0 or more"),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[update]\ncodec = 'int7'",
            "unknown variant `int7`",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[update]\ncodec = { name = 'int8', blok = 64 }",
            "unknown field `blok`, expected `block`",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[update]\ncodec = { name = 'int4', block = 0 }",
            "codec int4: block must be a multiple of 8",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[download]\ncodec = 'int4'",
            "unknown variant `int4`",
        ),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[download]\ncodec = 'f16'\ndelta = true",
            "[download] delta must be false",
        ),
        ("combine = \"weighted_mean\"", "combine = \"weighted_mean\"\n[schedule]\nrounds = ''", "[schedule] rounds"),
        ("combine = \"weighted_mean\"", "combine = \"weighted_mean\"\n[schedule]\ntime_zone = 'UTC'", "rounds"),
        (
            "combine = \"weighted_mean\"",
            "combine = \"weighted_mean\"\n[retention]\nmodels = { last = 0 }",
            "[retention] models",
        ),
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
fn a_loss_of_the_apps_own_goes_with_a_network_of_the_apps_own_and_has_no_accuracy() {
    let other = DIGITS.replace("[training]", "[training]\nloss = 'other'");
    let error = JobFile::parse(&other).unwrap_err().to_string();
    assert!(error.contains("[training] loss must be \"cross_entropy\" or \"mse\" for a list of layers"), "{error}");
    let digits = JobFile::parse(&format!("{DIGITS}\n[evaluation]")).unwrap();
    let own = serde_json::from_str(r#"{"parameters": [{"name": "w", "shape": [2]}]}"#).unwrap();
    let training = Training { loss: Loss::Other, ..digits.training.clone() };
    let mut job = JobFile { model: own, training, ..digits };
    job.check().unwrap();
    assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    job.stop.accuracy = Some(0.9);
    assert!(job.check().unwrap_err().to_string().contains("[stop] accuracy must be left out"));
}

/// Goal: a network whose layers fill the memory is no new job, and a stored one is still a job.
#[test]
fn an_evaluation_on_the_coordinator_has_a_bound_of_values() {
    let network = |outputs: usize, batch: u32| {
        let layers = format!("layers = [{{ kind = 'linear', out_features = 1, bias = false }}, {}]", {
            ["{ kind = 'relu' }"; 7].join(", ")
        });
        let replaced = DIGITS.replace("input = [64]", &format!("input = [{outputs}, 1]"));
        let (start, rest) = replaced.split_once("layers = [").unwrap();
        let (_, end) = rest.split_once("\n    ]").unwrap();
        let text = format!("{start}{layers}{end}").replace("batch_size = 10", &format!("batch_size = {batch}"));
        let job = JobFile::parse(&format!("{text}\n[evaluation]\nwhere = 'coordinator'")).unwrap();
        assert_eq!(job.values_per_example().unwrap(), Some(9 * outputs));
        job
    };
    let refused = |job: &JobFile| job.check_new().unwrap_err().to_string();
    let most = COORDINATOR_VALUES_MAX / 9;
    network(most, 1).check_new().unwrap();
    let above = network(most + 1, 1);
    assert!(refused(&above).contains(&format!("{} values", 9 * (most + 1))), "{}", refused(&above));
    let on_clients = JobFile { evaluation: None, ..above };
    on_clients.check_new().unwrap();
    assert!(refused(&JobFile { evaluation: None, ..network(most, 17) }).starts_with("[training] batch_size"));
    let mut wide = on_clients;
    wide.eligibility.attributes = (0..33).map(|index| (index.to_string(), String::new())).collect();
    assert!(wide.check().is_ok() && refused(&wide).contains("[eligibility] attributes must be at most 32"));
}

#[test]
fn a_huge_job_file_is_refused_unread() {
    assert!(matches!(JobFile::parse(&" ".repeat(JOB_FILE_BYTES_MAX + 1)), Err(JobFileError::TooLarge(_))));
}

fn with(replacements: &[(&str, &str)]) -> Result<JobFile, String> {
    let mut text = DIGITS.to_owned();
    for (from, to) in replacements {
        text = text.replacen(from, to, 1);
    }
    JobFile::parse(&text).map_err(|error| error.to_string())
}

fn aggregation(text: &str) -> Result<JobFile, String> {
    with(&[("combine = \"weighted_mean\"", text)])
}

#[test]
fn no_aggregation_is_the_mean_that_is_added_and_other_keys_are_refused() {
    assert_eq!(JobFile::parse(DIGITS).unwrap().aggregation, Aggregation::default());
    let half = Aggregation { optimizer: ServerOptimizer::plain(0.5), ..Aggregation::default() };
    assert_eq!(aggregation("optimizer = { kind = 'sgd', learning_rate = 0.5 }").unwrap().aggregation, half);
    for (unknown, key) in [("rule = 'fed_avg'", "rule"), ("server_learning_rate = 0.5", "server_learning_rate")] {
        let error = aggregation(unknown).expect_err(unknown);
        assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
    }
}

#[test]
fn settings_of_a_server_optimiser_are_checked() {
    for (optimizer, named) in [
        ("{ kind = 'sgd', momentum = 1 }", "momentum must be at least 0 and below 1"),
        ("{ kind = 'sgd', nesterov = true }", "nesterov must be false"),
        ("{ kind = 'adam', tau = 0 }", "tau must be"),
        ("{ kind = 'yogi', beta2 = 1 }", "beta2"),
        ("{ kind = 'adagrad', v0 = -1 }", "v0"),
        ("{ kind = 'adam', learning_rate = 0 }", "learning_rate"),
        ("{ kind = 'adam', rate = 1 }", "unknown field `rate`"),
        ("{ kind = 'lbfgs', pairs = 0 }", "pairs must be 1 to 20"),
        ("{ kind = 'sgd' }\nschedule = { kind = 'cosine', versions = 0 }", "schedule must be right: versions"),
    ] {
        let error = aggregation(&format!("optimizer = {optimizer}")).expect_err(optimizer);
        assert!(error.contains(named), "{optimizer}: {error}");
    }
    for optimizer in ["adam", "yogi", "adagrad"] {
        let job = aggregation(&format!("optimizer = {{ kind = '{optimizer}' }}")).unwrap();
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    }
}

#[test]
fn settings_that_make_no_sense_together_are_refused_with_the_reason() {
    let combine = |text: &str| format!("combine = {text}");
    for (text, why) in [
        ("{ kind = 'krum', byzantine = 2 }", "needs 2 x byzantine + 3 = 7 updates, and a round may have 5"),
        ("{ kind = 'multi_krum', byzantine = 1, keep = 5 }", "5 updates are kept of 5, of which 1 may be wrong"),
        ("{ kind = 'bulyan', byzantine = 1 }", "needs 4 x byzantine + 3 = 7 updates"),
        ("{ kind = 'trimmed_mean', trim = 0.1 }", "a trim of 0.1 drops nothing of 5 updates"),
    ] {
        let error = aggregation(&combine(text)).expect_err(text);
        assert!(error.contains(why) && error.contains("[round] updates_min"), "{text}: {error}");
    }
    for (text, more, why) in [
        ("'median'", "[update]\ncodec = 'top_k'", "top_k sends zero for most values"),
        ("'trimmed_mean'", "[update]\ncodec = 'ternary'", "ternary sends zero for most values"),
        ("{ kind = 'norm_clipping', norm = 3 }", "[update]\nnorm_max = 2", "none is left to clip to 3"),
    ] {
        let error = aggregation(&format!("combine = {text}\n{more}")).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    let large = |goal: &str, text: &str| {
        with(&[("updates_goal = 10", goal), ("combine = \"weighted_mean\"", &combine(text))]).map(|_| ())
    };
    let error = large("updates_goal = 300", "{ kind = 'krum', byzantine = 1 }").unwrap_err();
    assert!(error.contains("compares every pair of updates, so a cohort has at most 256 clients, not 390"), "{error}");
    assert!(large("updates_goal = 900", "'median'").unwrap_err().contains("a stripe of every update"));
    assert_eq!(large("updates_goal = 300", "'median'"), Ok(()));
    let wide =
        with(&[("out_features = 32", "out_features = 2000000"), ("combine = \"weighted_mean\"", "combine = 'median'")]);
    assert!(wide.unwrap_err().contains("with 150000010 parameters a cohort has at most 7 clients"));
    let adam = with(&[
        ("{ kind = \"sgd\", learning_rate = 0.1 }", "{ kind = 'adam', learning_rate = 0.1 }"),
        ("combine = \"weighted_mean\"", "combine = { kind = 'q_fedavg', q = 1 }"),
    ]);
    assert!(adam.unwrap_err().contains("divides by the learning rate of SGD"));
    let norm = with(&[
        ("{ kind = \"relu\" }", "{ kind = 'batch_norm' }"),
        ("combine = \"weighted_mean\"", "optimizer = { kind = 'adam' }"),
    ]);
    assert!(norm.unwrap_err().contains("running variances, which stay positive in a mean, but adam takes steps"));
    let nova = |text: &str| {
        with(&[("batch_size", "algorithm = { kind = 'fed_nova' }\nbatch_size"), ("combine = \"weighted_mean\"", text)])
    };
    assert!(
        nova("combine = 'median'")
            .unwrap_err()
            .contains("weighs updates by their examples and by the steps behind them, but median")
    );
    assert!(nova("combine = 'weighted_mean'").is_ok());
}

#[test]
fn a_line_search_needs_gradients_of_one_model() {
    let optimizer = "optimizer = { kind = 'lbfgs' }";
    let gradient = ("epochs = 1\n    batch_size = 10", "steps = 1");
    let lbfgs =
        |changes: &[(&str, &str)]| with(&[&[("combine = \"weighted_mean\"", optimizer), gradient], changes].concat());
    let whole = lbfgs(&[]).unwrap();
    assert_eq!(JobFile::parse(&whole.text()).unwrap(), whole);
    for (changes, why) in [
        (&[("steps = 1", "steps = 2")][..], "updates must be gradients"),
        (&[("steps = 1", "epochs = 1")], "updates must be gradients"),
        (&[("steps = 1", "steps = 1\nbatch_size = 10")], "updates must be gradients"),
        (&[("learning_rate = 0.1", "learning_rate = 0.1, momentum = 0.9")], "updates must be gradients"),
        (&[("steps = 1", "steps = 1\nalgorithm = { kind = 'fed_prox', mu = 1 }")], "updates must be gradients"),
        (&[(optimizer, "combine = 'median'\noptimizer = { kind = 'lbfgs' }")], "weighted_mean"),
        (&[(optimizer, "schedule = { kind = 'warmup', versions = 2 }\noptimizer = { kind = 'lbfgs' }")], "line search"),
        (&[("{ kind = \"relu\" }", "{ kind = 'dropout', probability = 0.5 }")], "dropout changes the loss at random"),
        (
            &[(optimizer, "optimizer = { kind = 'lbfgs' }\n[update]\ncodec = 'top_k'")],
            "the gradient of one model, but top_k sends",
        ),
        (
            &[(optimizer, "optimizer = { kind = 'lbfgs' }\n[download]\ndelta = true")],
            "but delta rounds each new version",
        ),
    ] {
        let error = lbfgs(changes).expect_err(why);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn settings_that_go_together_are_accepted() {
    for text in [
        "combine = 'median'",
        "combine = 'trimmed_mean'",
        "combine = { kind = 'trimmed_mean', trim = 0 }\n[update]\ncodec = 'top_k'",
        "combine = { kind = 'krum', byzantine = 1 }",
        "combine = { kind = 'multi_krum', byzantine = 1 }\noptimizer = { kind = 'adam' }",
        "combine = { kind = 'centered_clipping', radius = 1 }",
        "combine = { kind = 'norm_clipping', norm = 3 }\n[update]\nnorm_max = { quantile = 0.5 }",
        "combine = { kind = 'q_fedavg', q = 1 }",
    ] {
        let job = aggregation(text).unwrap();
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    }
}

#[test]
fn examples_with_unshared_parameters_are_jobs() {
    let personal = JobFile::parse(include_str!("../../../examples/personal.toml")).unwrap();
    assert_eq!(personal.model.parts().unwrap().shared().total(), 64 * 64 + 64);
    let low_rank = JobFile::parse(include_str!("../../../examples/low_rank.toml")).unwrap();
    let parts = low_rank.model.parts().unwrap();
    assert_eq!((parts.shared().total(), parts.model().total()), (2_344, 21_554));
    assert_eq!(JobFile::parse(&low_rank.text()).unwrap(), low_rank);
}

/// Running statistics that stay on the device are no reason to refuse a server's momentum or control vectors.
#[test]
fn personal_batch_norm_goes_with_every_optimiser_and_algorithm() {
    let file = |personal: &str| {
        DIGITS
            .replace("{ kind = \"relu\" }", "{ kind = \"batch_norm\" }")
            .replace("[training]", &format!("{personal}\n[training]"))
            .replace("combine = \"weighted_mean\"", "[aggregation.optimizer]\nkind = \"adam\"")
    };
    assert!(JobFile::parse(&file("")).unwrap_err().to_string().contains("running variance"));
    JobFile::parse(&file("personal = ['layers.1.*']")).unwrap();
    JobFile::parse(&file("personal = ['layers.1.running_*']")).unwrap();
    let scaffold = |personal: &str| {
        file(personal)
            .replace("epochs = 1", "epochs = 1\nalgorithm = { kind = 'scaffold', clients = 20 }")
            .replace("[aggregation.optimizer]\nkind = \"adam\"", "combine = \"uniform_mean\"")
    };
    assert!(JobFile::parse(&scaffold("")).unwrap_err().to_string().contains("no gradients"));
    JobFile::parse(&scaffold("personal = ['layers.1.*']")).unwrap();
}
