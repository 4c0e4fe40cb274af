//! What the tests share that start coordinators.
//!
//! | file | content |
//! |---|---|
//! | [`process`] | a coordinator's process, of a root or of a relay |
//! | [`host`] | a process that is killed at seeded moments and started again |
//! | [`proxy`] | the way to such a process; it counts traffic, and can be cut |
//! | [`operator`], [`device`] | an operator, and clients that speak the device API by hand |
//! | [`postgres`] | PostgreSQL databases of the tests' own |

pub(crate) mod device;
pub(crate) mod host;
pub(crate) mod operator;
#[path = "../../../../tests/tests/system/support/postgres.rs"]
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod proxy;

pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Runs of a test that kills a process so often in each of them. The variable `TRIBUTARY_KILLS` is the number of kills
/// in all; without it there is one run, and under CI as many as given.
pub(crate) fn runs(kills_in_a_run: u32, runs_under_ci: u64) -> u64 {
    match std::env::var_os("TRIBUTARY_KILLS") {
        Some(kills) => {
            let kills: u32 = kills.to_str().and_then(|kills| kills.parse().ok()).expect("TRIBUTARY_KILLS is a number");
            kills.div_ceil(kills_in_a_run).max(1).into()
        }
        None if is_ci() => runs_under_ci,
        None => 1,
    }
}
