//! The torture table: what hostile clients, slow lines and wrong clocks do to a coordinator, and what stays true.
//!
//! | row | what is done | what is asserted |
//! |---|---|---|
//! | [`clock`] | the clock steps back in an open round, and jumps both ways | every list answers, rounds end, jobs continue |
//! | [`limits`] | check-ins, requests, feeds, uploads without end; the database file is moved | the caller is refused, the others are not |
//! | [`malformed`] | requests of generated shape | none is a fault, a round commits |
//! | [`norms`] | updates above the norm bound | devices clip, others are refused and named |
//! | [`offenders`] | clients that are revoked or quarantined | their round continues without them, and they stay out |
//! | [`torture`] | wrong values, files, figures, assignments, tokens | the round commits, the offender is named |
//! | [`uploads`] | bodies that drip, repeat, break off, are damaged, wait for memory | honest updates get through, memory is bounded, the offender is named |
//! | [`values`] | a few bytes that stand for millions of values | other requests are answered meanwhile |

mod clock;
mod limits;
mod malformed;
mod norms;
mod offenders;
mod torture;
mod uploads;
mod values;
