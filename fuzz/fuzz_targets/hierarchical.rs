#![no_main]
//! Updates in the codec `hierarchical`.

use tributary_protocol::update::CodecName;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tributary_fuzz::update(CodecName::Hierarchical, data));
