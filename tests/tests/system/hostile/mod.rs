//! The torture table: what hostile clients, slow lines and wrong clocks do to a coordinator, and what stays true.
//!
//! | row | what is done | what is asserted |
//! |---|---|---|
//! | [`clock`] | the clock steps back in an open round, by a minute and by ten days | every list answers, the round commits |
//! | [`offenders`] | clients that are revoked or quarantined | their round goes on without them, and they stay out |
//! | [`uploads`] | bodies that drip, repeat, break off, are damaged, wait for memory | honest updates get through, memory is bounded, the offender is named |
//! | [`values`] | a few bytes that stand for millions of values | other requests are answered meanwhile |

mod clock;
mod offenders;
mod uploads;
mod values;
