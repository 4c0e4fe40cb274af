#![no_main]
//! Deltas of arbitrary values: the server reads every file that a codec writes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::delta(data));
