#![no_main]
//! Compressed bodies: no input decompresses to more than the limit.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::body(data));
