//! The smallest history that still fails: operations are left out, many at a time at first, as long as it does.

use std::fmt::Write;

use super::op::{Op, Setup};
use super::stage::play;

/// Most histories that are played to find it.
const TRIES_MAX: u32 = 300;

/// The history as a test for `kept.rs`.
pub(super) async fn smallest(setup: Setup, mut ops: Vec<Op>) -> String {
    let mut tries = 0;
    let mut length = ops.len().div_ceil(2);
    while length > 0 && tries < TRIES_MAX {
        let mut left_out = false;
        let mut start = 0;
        while start < ops.len() && tries < TRIES_MAX {
            let mut fewer = ops.clone();
            fewer.drain(start..(start + length).min(ops.len()));
            tries += 1;
            if tokio::spawn(play(setup, fewer.clone())).await.is_err() {
                ops = fewer;
                left_out = true;
            } else {
                start += length;
            }
        }
        if !(left_out && length == 1) {
            length /= 2;
        }
    }
    code(setup, &ops)
}

fn code(setup: Setup, ops: &[Op]) -> String {
    let mut code = String::from("#[tokio::test(flavor = \"multi_thread\", worker_threads = 2)]\nasync fn () {\n");
    let _ = writeln!(code, "    let setup = {setup:?};\n    play(setup, vec![");
    for op in ops {
        let _ = writeln!(code, "        Op::{op:?},");
    }
    code.push_str("    ])\n    .await;\n}\n");
    code
}
