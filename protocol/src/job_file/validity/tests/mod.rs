//! Tests of what goes together, over the changes of a job file in [`changes`].

mod changes;
mod docs;

use std::collections::BTreeSet;

use changes::{CHANGES, job};

use super::need::Need;
use super::setting::{Demand, Setting};
use super::{check, demands};
use crate::job_file::{JobFile, JobFileError, Mode, StalenessWeight};
use crate::update::CodecName;

/// Compares a text with a file, or writes it there.
fn is_written(path: &str, old: &str, new: &str) {
    if old != new && std::env::var_os("TRIBUTARY_WRITE_DOCS").is_some() {
        return std::fs::write(path, new).unwrap();
    }
    let line = new.lines().zip(old.lines()).find(|(new, old)| new != old);
    assert!(old == new, "{line:?}\nTRIBUTARY_WRITE_DOCS=1 cargo test -p tributary-protocol validity rewrites {path}");
}

/// What the changes of a job file bring with them, in their order.
fn settings() -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    for setting in CHANGES.iter().flat_map(|change| demands::of(&job(&[change]))) {
        match settings.iter_mut().find(|known| (known.key, &known.name) == (setting.key, &setting.name)) {
            None => settings.push(setting),
            // A setting may need more with one value than with another.
            Some(known) => {
                let is_new = |demand: &Demand, all: &[Demand]| all.iter().all(|known| known.why != demand.why);
                let needs: Vec<_> = setting.needs.into_iter().filter(|demand| is_new(demand, &known.needs)).collect();
                let denies: Vec<_> =
                    setting.denies.into_iter().filter(|demand| is_new(demand, &known.denies)).collect();
                known.needs.extend(needs);
                known.denies.extend(denies);
            }
        }
    }
    settings
}

/// Goal: no change of the demands refuses or accepts a job by accident. Method: a file lists each change of a job file
/// with those that it does not go with.
#[test]
fn the_pairs_that_are_refused_are_those_of_the_list() {
    let mut list = String::new();
    for one in CHANGES {
        assert!(check(&job(&[one])).is_ok(), "{} by itself", one.name);
        let others = CHANGES.iter().filter(|other| one.is_beside(other));
        let refused: Vec<&str> =
            others.filter(|other| check(&job(&[one, other])).is_err()).map(|other| other.name).collect();
        list += &format!("{}: {}\n", one.name, refused.join("; "));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/job_file/validity/tests/refused.txt");
    is_written(path, &std::fs::read_to_string(path).unwrap_or_default(), &list);
}

#[test]
fn the_changes_have_every_kind_of_every_setting() {
    // The message about an unknown kind names those that there are.
    let kinds = |section: &str, key: &str| -> Vec<String> {
        let mut file = serde_json::to_value(job(&[])).unwrap();
        file[section][key] = serde_json::json!({ "kind": "unknown" });
        let error = serde_json::from_value::<JobFile>(file).unwrap_err().to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    };
    let codecs = CodecName::ALL.map(|codec| codec.to_string()).to_vec();
    for (section, key, kinds) in [
        ("aggregation", "combine", kinds("aggregation", "combine")),
        ("aggregation", "optimizer", kinds("aggregation", "optimizer")),
        ("training", "algorithm", kinds("training", "algorithm")),
        ("training", "optimizer", kinds("training", "optimizer")),
        ("round", "mode", kinds("round", "mode")),
        ("round", "selection", kinds("round", "selection")),
        ("update", "codec", codecs),
    ] {
        assert!(kinds.len() > 2, "{section} {key}: {kinds:?}");
        for kind in kinds {
            let has = CHANGES.iter().any(|change| change.is_of(section, key, &kind));
            assert!(has, "no change sets {section}.{key} to {kind}");
        }
    }
}

#[test]
fn every_need_is_asked_for_and_taken_away() {
    let settings = settings();
    let needs = |demands: &[Demand]| demands.iter().flat_map(|demand| demand.of.iter().copied()).collect::<Vec<_>>();
    let needed: BTreeSet<Need> = settings.iter().flat_map(|setting| needs(&setting.needs)).collect();
    let mut denied: BTreeSet<Need> = settings.iter().flat_map(|setting| needs(&setting.denies)).collect();
    // Only large cohorts take these away.
    denied.extend([Need::EachUpdate, Need::Distances]);
    assert_eq!(needed, denied);
    for setting in &settings {
        assert!(setting.clash(setting).is_none(), "{} takes away what it needs itself", setting.name);
    }
}

#[test]
fn a_message_says_who_needs_what_who_takes_it_away_and_what_to_do() {
    let change = |name: &str| CHANGES.iter().find(|change| change.name == name).unwrap();
    let refused = |one: &str, other: &str| check(&job(&[change(one), change(other)])).unwrap_err();
    assert_eq!(
        refused("scaffold", "buffered").to_string(),
        "[training] algorithm does not go with [round] mode: scaffold makes corrections that are those of the newest \
         version, but buffered lets clients work for several rounds, on versions that fall behind; set mode = { kind = \
         \"synchronous\" }"
    );
    let names = |error| match error {
        JobFileError::Senseless { first, second, .. } => (first, second),
        other => panic!("{other}"),
    };
    assert_eq!(names(refused("lbfgs", "top_k")), ("[aggregation.optimizer]", "[update] codec"));
    assert_eq!(names(refused("updates_goal", "buffered")), ("[round] updates_goal", "[round] mode"));
    assert_eq!(names(refused("krum", "stale_synchronous")).1, "[round] mode stale_synchronous");
    let mut of_one_setting = job(&[change("buffered, constant, fetch_every")]);
    if let Mode::Buffered { staleness_weight, .. } = &mut of_one_setting.round.mode {
        *staleness_weight = StalenessWeight::Inverse;
    }
    let both = ("[round] mode staleness_weight", "[round] mode fetch_every");
    assert_eq!(names(check(&of_one_setting).unwrap_err()), both);
}

/// A setting that is yet to come names what it takes away, and no rule.
#[test]
fn a_new_setting_needs_to_know_no_other_one() {
    let masks = Setting::of("[privacy] masks").denies(&[Need::EachUpdate, Need::Distances], "shows sums alone");
    let mut refused = Vec::new();
    for change in CHANGES {
        let settings = demands::of(&job(&[change]));
        refused.extend(settings.iter().filter(|setting| setting.clash(&masks).is_some()).map(|_| change.name));
    }
    let robust = ["median", "trimmed_mean", "trimmed_mean, 0", "krum", "multi_krum", "bulyan", "geometric_median"];
    assert_eq!(refused, [&robust[..], &["centered_clipping"]].concat());
}
