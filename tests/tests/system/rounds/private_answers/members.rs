//! What the answers about jobs have, member by member: what may be told of a private job, and what never is.

use std::collections::BTreeSet;

/// Names of a schema and of its member.
pub(super) type Member = (String, String);

pub(super) fn members(list: &[(&str, &str)]) -> BTreeSet<Member> {
    let of = |(owner, names): &(&str, &str)| {
        let owner = (*owner).to_owned();
        names.split_whitespace().map(move |name| (owner.clone(), name.to_owned())).collect::<Vec<_>>()
    };
    list.iter().flat_map(of).collect()
}

/// Members of the answers about jobs that a private job may have, by the name of their schema.
///
/// Who took part, when, with how many bytes and how it ended is told; what follows from the models is, and what the
/// coordinator measures with a test set of its own.
pub(super) const TOLD: &[(&str, &str)] = &[
    ("", "items next"),
    ("Adapted", "cohort deadline_ms dropout_permille fastest_ms updates_per_hour works"),
    ("AdaptiveNoisedClip", "quantile rate start"),
    // Analyses: their estimates have noise, or are refused.
    ("Answer", "column epsilon estimates kind name noise"),
    (
        "Assignment",
        "assigned_at_ms attributes base_version bytes_below client client_number ended_at_ms explanation fetched_at_ms id \
         late_at_ms parts places reason round_trip_ms shape spare staleness state stopped_at_ms straggler updates upload_at_ms upload_ms weight \
         work_ms",
    ),
    // Of jobs with secure aggregation, which have sums alone.
    ("RoundGroup", "degree id members reason signed since_ms stage survivors_min threshold"),
    ("RoundGroupMember", "came client_number"),
    // Of jobs with groups that add up among themselves, which have no privacy.
    ("RoundRing", "attempts star waiting"),
    ("RingAttempt", "exchanged formed_at_ms id members number sha256 since_ms state"),
    (
        "RingPart",
        "brings bytes_received bytes_sent client_number distance outcome relayed relayed_bytes sent_kbit_s stall \
         took_ms weight",
    ),
    ("RingBlame", "client_number step what"),
    ("BestVersion", "accuracy loss measured_on round version"),
    ("BudgetPart", "epsilon job name"),
    ("BudgetState", "budget jobs spent"),
    ("SharedBudget", "delta epsilon unit"),
    ("Blocks", "block"),
    ("Cell", "number reason state"),
    ("ClassCounts", "classes counts examples kind right"),
    ("ClassTotals", "examples right"),
    ("ClientAssignment", "job round task"),
    ("Curve", "marks points rounds targets"),
    ("CurveMark", "at_ms became cause round wall_ms"),
    (
        "CurvePoint",
        "abandoned accuracy at_ms bytes_down bytes_up clients_ms cohort loss measured_on reported round wall_ms",
    ),
    ("Dgc", "clip density momentum momentum_masking residual_age_rounds_max values warm_up_rounds"),
    ("Eden", "bits"),
    ("EpsilonPair", "cohorts models"),
    ("Estimate", "high label low value"),
    ("Event", "assignment at_ms became cause job round sequence task"),
    ("Health", "kind remedy severity text"),
    ("Hierarchical", "block"),
    ("Job", "file health plan_hash progress"),
    ("JobAnswers", "answers clients rounds rounds_needed"),
    (
        "JobHead",
        "archived_at_ms created_at_ms ended_at_ms id model_version notes parameters rounds_committed \
         rounds_not_before_ms rounds_opened state tags",
    ),
    (
        "JobOverview",
        "accuracy best_accuracy best_measured_on best_round bytes_down bytes_up ends_in_ms health job last_round loss \
         measured_on open_rounds spark",
    ),
    ("JobPrivacy", "is_spent ledger noise_ratio spent terms units_needed"),
    ("JobPrivacyState", "privacy shared"),
    ("JobSummary", "codec learning_rate name population stop"),
    (
        "LedgerEntry",
        "at_ms hash mechanism noise_multiplier number participations previous rate round sensitivity version",
    ),
    ("MeasuredOn", "clients examples high low"),
    ("MetricCurve", "name points rounds task"),
    ("MetricPoint", "at_ms round"),
    (
        "ModelVersion",
        "accuracy best bytes created_at_ms deleted_at_ms loss measured_on pinned_at_ms round sha256 version",
    ),
    ("NoiseBuffers", "omega theta"),
    ("OpenRound", "cells"),
    ("Outlook", "abandoned censored deadline_ms goal longest_ms minimum points rounds suggested_ms"),
    ("OutlookPoint", "abandoned deadline_ms lasts_ms reports reports_min"),
    ("Overview", "jobs now_at_ms populations version"),
    ("PhaseSpan", "began_at_ms ended_at_ms phase"),
    ("Population", "clients created_at_ms name online working"),
    (
        "Privacy",
        "buffers clip delta epsilon mechanism noise_multiplier participations_max releases_max sampling separation \
         unit",
    ),
    ("Progress", "accuracy awaits_evaluation best bytes_down bytes_up ends_in_ms loss measured_on"),
    ("Qsgd", "bucket levels"),
    ("RandomK", "density values"),
    (
        "Round",
        "accuracy adapted assigned base_version buffer classes clients_ms clip_norm closed_at_ms cohort deadline_at_ms \
         ended_at_ms evaluation_metrics expired failed folded goal loss measured_on minimum number opened_at_ms phase \
         reason rejected reported saved_ms selected_at_ms spare step_norm task weight",
    ),
    ("RoundBuffer", "concurrency lost_weight slack staleness_max staleness_mean"),
    (
        "RoundDetail",
        "classes classes_measured_on clocks evaluation explanation groups phases ring round staleness waiting_for_group what_if",
    ),
    ("MemberClock", "client_number clock is_working missed_at_ms"),
    ("ShapeCount", "by_class count shape"),
    // The examples are updates here, of one each, and what they lost follows from how late they were.
    ("StaleClient", "client client_number examples lost_weight staleness_max staleness_mean updates"),
    ("StalenessCount", "examples staleness updates"),
    ("StopPolicy", "accuracy at_least at_most metric rounds"),
    ("Tagged", "name"),
    ("Target", "accuracy at_ms bytes_up clients_ms round"),
    ("Ternary", "clip scale"),
    ("TestSet", "bytes examples sha256 uploaded_at_ms"),
    ("TestSetState", "test_set"),
    ("TopK", "density residual_age_rounds_max values"),
    ("Traffic", "bytes_down bytes_up raw_bytes_down raw_bytes_up"),
    ("Unit", "attribute"),
    ("WhatIf", "deadline_ms dropped"),
];

/// Members that are absent, empty or 0 in each answer about a private job: figures of single clients, what follows from
/// several without noise, and secrets.
pub(super) const NEVER_TOLD: &[(&str, &str)] = &[
    ("AdaptedGoal", "least most rounds useful"),
    ("Assignment", "accuracy accuracy_high accuracy_low cosine loss metrics update_norm"),
    ("CurvePoint", "training_loss"),
    ("MeasuredOn", "p10 worst"),
    ("MetricSummary", "max mean min name p10 p50 p90 reports"),
    ("Privacy", "test_key"),
    ("Progress", "useful_updates"),
    ("Round", "adapted_goal diversity metrics mu norm_max seed training_loss"),
    ("UsefulUpdates", "batch text updates"),
];
