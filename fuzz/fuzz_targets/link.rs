#![no_main]
//! Frames of a link: a member whose neighbour sends arbitrary bytes ends with a sum or a fault.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::link::link(data));
