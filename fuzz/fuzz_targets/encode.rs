#![no_main]
//! Deltas of any values: whatever a codec writes, the server reads.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::delta(data));
