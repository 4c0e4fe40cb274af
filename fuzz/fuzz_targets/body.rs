#![no_main]
//! Bodies as zstd frames: whatever comes, no more is unpacked than was allowed.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::body(data));
