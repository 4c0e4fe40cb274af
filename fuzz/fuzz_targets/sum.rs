#![no_main]
//! Sums: what is accepted is the one encoding of its values.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::sum(data));
