//! The demands of each setting of a job file.

use super::need::Need;
use super::setting::Setting;
use crate::coded::Code;
use crate::download::{Download, ModelForm};
use crate::job_file::combine::{Combine, TrimmedMean};
use crate::job_file::{
    Aggregation, Coded, Divisor, EvaluationPlace, EvaluationPolicy, Group, JobFile, Mode, RoundPolicy, Selection,
    ServerOptimizer, StalenessWeight,
};
use crate::job_model::JobModel;
use crate::layers::{Layer, ModelSpec};
use crate::plan::{Algorithm, Optimizer, Training};
use crate::sharing::Part;
use crate::update::{Codec, CodecName};

/// The settings of a job file. Those with their default mostly need nothing and take nothing away.
pub(super) fn of(job: &JobFile) -> Vec<Setting> {
    let rest = Setting::of("[eligibility] separation_rounds")
        .needs(&[Need::RoundEnds], "lets clients rest until rounds have ended")
        .when(job.eligibility.separation_rounds > 0);
    [
        cohorts(&job.round),
        mode(job.round.mode),
        vec![rest],
        training(&job.training),
        client_optimizer(&job.training.optimizer),
        algorithm(&job.training.algorithm),
        combine(&job.aggregation.combine),
        optimizer(&job.aggregation),
        vec![codec(&job.update.codec)],
        download(job.download),
        model(&job.model),
        vec![evaluation(job.evaluation.as_ref()), privacy(job.privacy.is_some())],
        secure_aggregation(job),
        group(job.group.as_ref()),
        vec![coded(job.coded.as_ref()), coded_tree(job.coded.as_ref()), shards(&job.aggregation)],
    ]
    .concat()
}

fn evaluation(evaluation: Option<&EvaluationPolicy>) -> Setting {
    let is_set = evaluation.is_some_and(|evaluation| evaluation.place == EvaluationPlace::Clients);
    Setting::with("[evaluation] where", "clients")
        .needs(&[Need::Figures], "adds up what each client measures")
        .when(is_set)
}

fn privacy(is_set: bool) -> Setting {
    Setting::of("[privacy]")
        .denies(&[Need::SumAlone], "bounds what each update changes")
        .needs(&[Need::EqualWeights], "bounds what one update changes, so all count alike")
        .needs(&[Need::DeltaAlone], "clips the delta, and knows no bound of another vector beside it")
        .needs(&[Need::OneOfEach], "bounds what one unit changes in a version, so it contributes once at most")
        .denies(&[Need::MovingDivisor], "divides by a fixed number, whatever came")
        .denies(&[Need::Figures], "keeps what single clients report to nobody")
        .when(is_set)
}

fn secure_aggregation(job: &JobFile) -> Vec<Setting> {
    let is_set = job.secure_aggregation.is_some();
    let moves = job.clip().is_some_and(|clip| clip.adaptive().is_some());
    vec![
        Setting::of("[secure_aggregation]")
            .needs(&[Need::SumsOfGroups], "knows the sums of groups alone, in which all updates count alike")
            .needs(&[Need::DeltaAlone], "masks the delta, and no vector beside it")
            .denies(&[Need::SumAlone], "forms groups of its own")
            .denies(&[Need::Ranges], "masks whole updates")
            .denies(&[Need::KnownAge], "adds up late updates and others before anybody can tell them apart")
            .denies(&[Need::Figures], "lets nobody know what single clients report")
            .when(is_set),
        Setting::with("[secure_aggregation] clip", "a clip that moves")
            .needs(&[Need::OneRound], "is another one in each round, and the members of a group have the same")
            .when(is_set && moves),
    ]
}

fn group(group: Option<&Group>) -> Vec<Setting> {
    let exchange = group.and_then(|group| group.topology.exchange());
    let kind = if exchange.is_some_and(|exchange| exchange.gossip.is_some()) { "gossip" } else { "ring" };
    vec![
        Setting::with("[group] topology", kind)
            .needs(&[Need::NewestBase], "adds up the updates of one round among its members")
            .needs(&[Need::SumAlone], "tells the coordinator the sum of the updates, and no single one")
            .denies(&[Need::FullTimes], "lets members wait for each other, so times do not say how long work takes")
            .when(group.is_some()),
        Setting::with("[group] topology", "gossip with a model of each member")
            .needs(&[Need::ClientSgd, Need::PlainSteps], "begins each round with a model and without moments")
            .needs(&[Need::NothingPersonal], "gives each client weights of its own already")
            .when(kind == "gossip"),
        Setting::with("[group] topology every", "steps")
            .needs(&[Need::EqualSteps], "lets members exchange after the same steps")
            .needs(&[Need::EqualWeights], "takes the mean of the members' models, in which all count alike")
            .needs(&[Need::DeltaAlone], "averages models while they are trained, and no vector beside them")
            .needs(&[Need::WholeUpdate], "gives all members one model, of which no update leaves anything out")
            .when(exchange.is_some()),
    ]
}

fn coded(coded: Option<&Coded>) -> Setting {
    let of = Setting::with("[coded] code", coded.map_or("", |coded| coded.code.as_str()))
        .needs(&[Need::NewestBase], "adds up the updates of one round, part by part")
        .needs(&[Need::SumAlone], "tells the coordinator sums of parts, and no single update")
        .needs(
            &[Need::WholeUpdate],
            "lets whoever holds a part send its update, and no client remembers what it left out",
        )
        .needs(&[Need::DeltaAlone], "trains each part by whoever holds it, and no client keeps a vector for it")
        .needs(&[Need::NothingPersonal], "trains several parts on one client, which would share what is personal")
        .denies(&[Need::Cohorts], "draws the clients that hold each part, and needs the updates of all parts")
        .denies(&[Need::CohortSize], "draws the clients that hold each part")
        .denies(&[Need::RoundEnds], "needs whoever holds a part in every round");
    let of = match coded.map(|coded| coded.code) {
        Some(Code::Cyclic) => of.needs(&[Need::ExactUpdates], "multiplies updates by factors"),
        Some(Code::Fractional) | None => of,
    };
    of.when(coded.is_some())
}

fn shards(aggregation: &Aggregation) -> Setting {
    Setting::of("[aggregation] shards")
        .needs(&[Need::Ranges], "lets each coordinator add up a range of the parameters, and none sees whole updates")
        .when(aggregation.shards.is_some())
}

fn coded_tree(coded: Option<&Coded>) -> Setting {
    Setting::of("[coded] tree")
        .needs(&[Need::ExactUpdates], "multiplies updates by factors on each level")
        .needs(&[Need::EqualWeights], "gives each part its share before anybody has told its examples")
        .when(coded.is_some_and(|coded| coded.tree.is_some()))
}

fn cohorts(round: &RoundPolicy) -> Vec<Setting> {
    let RoundPolicy {
        updates_goal,
        updates_min,
        over_selection,
        available_min,
        selection_timeout_ms,
        selection,
        adapt,
        mode: _,
        deadline_ms: _,
        backoff_ms: _,
        backoff_max_ms: _,
    } = round;
    let default = RoundPolicy::default();
    let follows_diversity = adapt.as_ref().is_some_and(|adapt| adapt.updates_goal_min.is_some());
    let of = |key, why, is_set| Setting::of(key).needs(&[Need::Cohorts], why).when(is_set);
    let chosen = |name| Setting::with("[round] selection", name).needs(&[Need::Cohorts], "chooses a cohort");
    vec![
        of("[round] updates_goal", "closes the round of a cohort", *updates_goal != default.updates_goal),
        of("[round] updates_min", "is what the round of a cohort must reach", *updates_min != default.updates_min),
        of("[round] over_selection", "sizes a cohort", *over_selection != default.over_selection),
        of("[round] available_min", "delays the draw of a cohort", *available_min != default.available_min),
        of("[round] adapt updates_goal_min", "moves the goal of a cohort's round", follows_diversity)
            .needs(if follows_diversity { &[Need::Figures] } else { &[] }, "follows the norms of updates"),
        Setting::of("[round] selection_timeout_ms")
            .needs(&[Need::Wait], "ends the wait for clients before a draw")
            .when(*selection_timeout_ms != default.selection_timeout_ms),
        match selection {
            Selection::Uniform => Setting::with("[round] selection", "uniform"),
            Selection::Weighted => chosen("weighted").needs(&[Need::Figures], "draws clients by their examples"),
            Selection::PowerOfChoice { .. } => {
                chosen("power_of_choice").needs(&[Need::Figures], "draws clients by their losses")
            }
            Selection::Poisson { .. } => {
                chosen("poisson").denies(&[Need::CohortSize], "draws each client by itself, with a chance of its own")
            }
            Selection::Utility(_) => chosen("utility").needs(&[Need::Figures], "draws clients by their losses"),
        },
        Setting::of("[round] adapt")
            .needs(&[Need::CohortSize], "sizes a cohort by the drop-out of the rounds before")
            .needs(&[Need::Redraw], "moves the deadline to where it cuts off the slowest clients")
            .needs(&[Need::FullTimes], "derives the deadline from the times that reports say")
            .when(adapt.is_some()),
    ]
}

fn mode(mode: Mode) -> Vec<Setting> {
    const ENDLESS: &str = "has rounds without an end of their own, so clients that all rest would stop the job";
    let of = |name| Setting::with("[round] mode", name);
    match mode {
        Mode::Synchronous => Vec::new(),
        Mode::StaleSynchronous { .. } => vec![
            of("stale_synchronous")
                .denies(&[Need::Cohorts], "has members that stay, and as many updates as members make a version")
                .denies(&[Need::Redraw], "makes a member leave that misses its deadline")
                .denies(&[Need::RoundEnds], ENDLESS)
                .denies(&[Need::NewestBase, Need::OneRound], "lets members work on versions that fall behind")
                .denies(&[Need::OneOfEach], "counts several updates of a fast member in a version"),
        ],
        Mode::Buffered { staleness_weight, divisor, fetch_every, push_every, .. } => {
            let is_discounted = staleness_weight != StalenessWeight::Constant;
            vec![
                of("buffered")
                    .denies(&[Need::Cohorts, Need::Wait], "draws clients one by one, and a full buffer makes a version")
                    .denies(&[Need::RoundEnds], ENDLESS)
                    .denies(
                        &[Need::NewestBase, Need::OneRound],
                        "lets clients work for several rounds, on versions that fall behind",
                    ),
                Setting::of("[round] mode staleness_weight")
                    .needs(&[Need::Weights], "changes the weights of late updates")
                    .needs(&[Need::KnownAge], "counts the age of an update from its assignment")
                    .denies(&[Need::FullCount], "moves the model by less for a late update")
                    .when(is_discounted),
                Setting::with("[round] mode divisor", "count")
                    .needs(&[Need::FreeDivisor], "divides by the weights without their discounts")
                    .when(is_discounted && divisor == Divisor::Count),
                Setting::with("[round] mode divisor", "weights")
                    .needs(&[Need::MovingDivisor], "divides by the weights with their discounts")
                    .when(is_discounted && divisor == Divisor::Weights),
                Setting::of("[round] mode fetch_every")
                    .denies(&[Need::KnownAge], "lets a client's own weights be older between fetches")
                    .denies(&[Need::OneTraining], "lets a client continue from its own weights")
                    .when(fetch_every > 1),
                Setting::of("[round] mode push_every")
                    .denies(&[Need::OneTraining], "makes an update of several trainings")
                    .when(push_every > 1),
            ]
        }
    }
}

fn training(training: &Training) -> Vec<Setting> {
    let of = |key, why, is_set| Setting::of(key).denies(&[Need::Gradient], why).when(is_set);
    let any_steps = "may be any number of steps";
    let schedules_epochs = training.work_schedule.iter().any(|change| change.epochs.is_some());
    vec![
        of("[training] epochs", any_steps, training.epochs.is_some())
            .denies(if training.epochs.is_some() { &[Need::EqualSteps] } else { &[] }, any_steps),
        of("[training] steps", "is more than one", training.steps.is_some_and(|steps| steps > 1)),
        of("[training] work_schedule", "changes the number of steps", !training.work_schedule.is_empty())
            .denies(if schedules_epochs { &[Need::EqualSteps] } else { &[] }, any_steps),
        of("[training] batch_size", "takes a part of the examples", training.batch_size.is_some()),
        Setting::of("[training] partial_work")
            .denies(&[Need::FullTimes], "ends work with its deadline, so its times do not say how long work takes")
            .denies(&[Need::Gradient], "may send less than a step over all examples")
            .denies(&[Need::EqualSteps], "ends work after any step")
            .when(training.partial_work.is_some()),
        Setting::of("[training] personal_epochs")
            .needs(&[Need::PersonalParameters], "trains the personal parameters alone")
            .denies(&[Need::EqualSteps], "takes steps of its own first")
            .when(training.personal_epochs.is_some()),
    ]
}

fn client_optimizer(optimizer: &Optimizer) -> Vec<Setting> {
    let adaptive = |name| {
        let denied = &[Need::ClientSgd, Need::Gradient];
        vec![Setting::with("[training] optimizer", name).denies(denied, "scales each step by those before")]
    };
    match *optimizer {
        Optimizer::Adam { .. } => adaptive("adam"),
        Optimizer::AdamW { .. } => adaptive("adam_w"),
        Optimizer::Sgd { momentum, weight_decay, nesterov, learning_rate: _ } => vec![
            Setting::of("[training] optimizer momentum")
                .denies(&[Need::PlainSteps, Need::Gradient], "repeats earlier gradients in a step")
                .when(momentum > 0.0),
            Setting::of("[training] optimizer nesterov").denies(&[Need::StepCount], "has no such count").when(nesterov),
            Setting::of("[training] optimizer weight_decay")
                .denies(&[Need::Gradient], "adds to the gradient")
                .when(weight_decay > 0.0),
        ],
    }
}

fn algorithm(algorithm: &Algorithm) -> Vec<Setting> {
    let plain = Setting::with("[training] algorithm", algorithm.as_str());
    let other = plain
        .clone()
        .denies(&[Need::Gradient], "changes what clients send")
        .needs(&[Need::OneTraining], "needs updates that are each one training from the newest model");
    let corrects = |of: Setting| {
        of.denies(&[Need::DeltaAlone], "adds to the sum of a version what its clients keep from round to round")
            .needs(&[Need::NewestBase], "makes corrections that are those of the newest version")
            .needs(&[Need::EqualWeights], "keeps vectors that sum up to the model's only if all updates count alike")
            .needs(&[Need::WholeUpdate], "makes up with a client's vector for what its update left out")
            .needs(&[Need::TrainedValues], "corrects the gradient of each shared parameter")
    };
    let steps = |of: Setting| of.needs(&[Need::AddedStep, Need::ConstantRate], "has a server step of its own");
    match *algorithm {
        Algorithm::Plain => vec![plain],
        Algorithm::FedProx { adaptive, .. } => vec![
            other,
            Setting::with("[training] algorithm", "fed_prox with adaptive")
                .needs(&[Need::NewestBase], "gives each round a mu of its own")
                .needs(&[Need::Figures], "follows the losses of clients")
                .when(adaptive.is_some()),
        ],
        Algorithm::FedNova { mu } => vec![
            other
                .denies(&[Need::SumAlone, Need::Ranges], "scales each update by its steps")
                .needs(&[Need::ExampleMean], "weighs updates by their examples and by the steps behind them")
                .needs(&[Need::ClientSgd, Need::StepCount], "divides by a count of plain steps of SGD")
                .denies(&[Need::DeltaAlone], "scales each update by its steps")
                .denies(&[Need::FreeDivisor], "divides by the weights itself"),
            Setting::with("[training] algorithm", "fed_nova with mu")
                .needs(&[Need::PlainSteps], "has a count for plain steps alone")
                .when(mu > 0.0),
        ],
        Algorithm::Scaffold { .. } => {
            let needed = &[Need::ClientSgd, Need::PlainSteps];
            vec![corrects(other).needs(needed, "takes the mean gradient from plain steps of SGD")]
        }
        Algorithm::FedDyn { .. } => vec![steps(corrects(other))],
        Algorithm::Easgd { .. } => vec![
            steps(other)
                .denies(&[Need::SumAlone, Need::Ranges], "moves each client by its own pull")
                .needs(&[Need::FullCount], "moves the model by as much as its client")
                .needs(
                    &[Need::EqualWeights],
                    "moves the model by the sum of the pulls, in which all updates count alike",
                )
                .needs(&[Need::WholeUpdate], "moves a client by the whole pull at once")
                .needs(&[Need::NothingPersonal], "gives each client weights of its own already")
                .needs(&[Need::SeparateParameters], "lets the parameters of its clients stay apart")
                .denies(&[Need::DeltaAlone], "sends pulls instead of deltas")
                .denies(&[Need::MeanStep], "pulls towards stale values, which could make one negative"),
        ],
    }
}

fn combine(combine: &Combine) -> Vec<Setting> {
    let of = Setting::with("[aggregation] combine", combine.name());
    let weightless = |of: Setting| of.denies(&[Need::Weights], "has no weights that a discount could change");
    let weighs = |of: Setting, why| of.denies(&[Need::EqualWeights, Need::ExampleMean], why);
    let reads_each = |of: Setting, why| weighs(of, why).denies(&[Need::SumAlone], why);
    let compares = |of: Setting, why| weightless(reads_each(of, why)).denies(&[Need::Ranges], why);
    let robust = |of| compares(of, "follows the middle of the updates, not their mean");
    let in_pairs = |of| {
        robust(of)
            .needs(&[Need::Distances], "compares every pair of updates")
            .denies(&[Need::SumsOfGroups], "needs more updates than a round has groups")
    };
    let in_stripes = |of| robust(of).needs(&[Need::EachUpdate], "holds a stripe of every update in memory");
    let middle = |of: Setting| of.needs(&[Need::DenseValues], "takes the middle of each coordinate");
    let of = match *combine {
        Combine::WeightedMean => {
            of.denies(&[Need::EqualWeights, Need::SumsOfGroups], "weighs updates by their examples")
        }
        Combine::UniformMean => of.denies(&[Need::ExampleMean], "counts all updates alike"),
        Combine::QFedAvg(_) => compares(of, "weighs updates by their losses")
            .denies(&[Need::SumsOfGroups], "weighs updates by their losses")
            .needs(&[Need::ClientSgd], "divides by the learning rate of SGD"),
        Combine::NormClipping(_) => reads_each(of, "shortens long updates, and weighs them by their examples")
            .denies(&[Need::FreeDivisor], "divides by the weights itself"),
        Combine::TrimmedMean(TrimmedMean { trim: 0.0 }) => in_stripes(of),
        Combine::Median | Combine::TrimmedMean(_) => middle(in_stripes(of)),
        Combine::Bulyan(_) => middle(in_pairs(of)),
        Combine::Krum(_) | Combine::MultiKrum(_) | Combine::GeometricMedian(_) | Combine::CenteredClipping(_) => {
            in_pairs(of)
        }
    };
    let adapts = Setting::with("[aggregation] combine", "norm_clipping with adaptive")
        .denies(&[Need::SumsOfGroups], "follows the norms of updates")
        .when(combine.adaptive_clip().is_some());
    vec![of, adapts]
}

fn optimizer(aggregation: &Aggregation) -> Vec<Setting> {
    let of = |name| Setting::with("[aggregation.optimizer]", name);
    let steps = |of: Setting, why| {
        of.denies(&[Need::AddedStep], why).denies(&[Need::MeanStep], "takes steps that could make one negative")
    };
    let adaptive = |name| steps(of(name), "scales each value of a step");
    let optimizer = match aggregation.optimizer {
        ServerOptimizer::Sgd { momentum: 0.0, learning_rate, .. } => {
            Setting::of("[aggregation.optimizer] learning_rate")
                .denies(&[Need::AddedStep], "changes the length of a step")
                .when(learning_rate != 1.0)
        }
        ServerOptimizer::Sgd { .. } => steps(Setting::of("[aggregation.optimizer] momentum"), "repeats earlier steps"),
        ServerOptimizer::Adagrad { .. } => adaptive("adagrad"),
        ServerOptimizer::Adam { .. } => adaptive("adam"),
        ServerOptimizer::Yogi { .. } => adaptive("yogi"),
        ServerOptimizer::Lbfgs { .. } => steps(of("lbfgs"), "makes a direction of a step, and searches along it")
            .denies(&[Need::SumAlone], "compares the losses of two rounds")
            .needs(&[Need::Gradient], "searches along gradients of all examples")
            .needs(&[Need::NewestBase], "needs all gradients of a round to be those of one model")
            .needs(&[Need::ExampleMean], "takes the mean of the gradients for that of the losses")
            .needs(&[Need::WholeUpdate], "takes an update for the gradient of one model")
            .needs(&[Need::ConstantRate], "sets the length of a step by a line search")
            .needs(&[Need::ComparableLoss, Need::Figures], "compares the losses of two rounds")
            .needs(&[Need::ExactModel], "compares losses at the very points of its search"),
    };
    let schedule = Setting::of("[aggregation] schedule")
        .denies(&[Need::ConstantRate], "changes the length of a step from version to version")
        .when(!aggregation.schedule.is_constant());
    vec![optimizer, schedule]
}

fn codec(codec: &Codec) -> Setting {
    let zeros = match codec.name() {
        CodecName::Ternary | CodecName::Qsgd | CodecName::RandomK | CodecName::TopK | CodecName::Dgc => {
            &[Need::DenseValues][..]
        }
        CodecName::F32 | CodecName::F16 | CodecName::Bf16 | CodecName::Int8 | CodecName::Int4 => &[],
        CodecName::Sign | CodecName::Eden | CodecName::Hierarchical => &[],
    };
    let rest = if codec.properties().error_feedback { &[Need::WholeUpdate][..] } else { &[] };
    let rounds = if codec.name() == CodecName::F32 { &[][..] } else { &[Need::ExactUpdates] };
    Setting::with("[update] codec", codec.name())
        .denies(rounds, "rounds each update")
        .denies(zeros, "sends zero for most values, so the middle of most coordinates would be zero")
        .denies(rest, "sends with later updates what an update leaves out")
}

fn download(download: Download) -> Vec<Setting> {
    let of = |key, why, is_set| Setting::of(key).denies(&[Need::ExactModel], why).when(is_set);
    vec![
        of("[download] codec", "rounds the model", download.codec != ModelForm::F32),
        of("[download] delta", "rounds each new version", download.delta),
    ]
}

fn model(model: &JobModel) -> Vec<Setting> {
    let layers = if let ModelSpec::Layers(network) = &model.spec { network.layers.as_slice() } else { &[] };
    let is_personal = model.parts().is_ok_and(|parts| parts.has(Part::Personal));
    let of = |name| Setting::with("[model] layers", name);
    vec![
        of("batch_norm")
            .needs(&[Need::MeanStep], "shares running variances, which stay positive in a mean")
            .denies(&[Need::TrainedValues], "shares running means and variances, which have no gradients")
            .when(model.shares_running_statistics()),
        of("dropout")
            .denies(&[Need::ComparableLoss], "changes the loss at random")
            .when(layers.iter().any(|layer| matches!(layer, Layer::Dropout { .. }))),
        of("low_rank")
            .denies(&[Need::SeparateParameters], "has factors that mean something only together")
            .when(layers.iter().any(|layer| matches!(layer, Layer::LowRank { .. }))),
        Setting::of("[model] personal")
            .denies(&[Need::NothingPersonal, Need::ComparableLoss], "lets each client train parameters for itself")
            .when(is_personal),
        Setting::with("[model]", "a model without personal parameters")
            .denies(&[Need::PersonalParameters], "has none")
            .when(!is_personal),
    ]
}
