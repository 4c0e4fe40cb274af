//! Writes the bindings of a library: `cargo run -p tributary-ffi --example bindgen -- kotlin LIBRARY FOLDER`.

use std::process::ExitCode;

use uniffi::{GenerateOptions, TargetLanguage};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [language, library, folder] = &arguments[..] else {
        eprintln!("usage: bindgen kotlin|swift LIBRARY FOLDER");
        return ExitCode::FAILURE;
    };
    let language = match language.as_str() {
        "kotlin" => TargetLanguage::Kotlin,
        "swift" => TargetLanguage::Swift,
        other => {
            eprintln!("{other:?} is no language; there are kotlin and swift");
            return ExitCode::FAILURE;
        }
    };
    let options = GenerateOptions {
        languages: vec![language],
        source: library.into(),
        out_dir: folder.into(),
        config_override: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/bindgen.toml").into()),
        ..GenerateOptions::default()
    };
    match uniffi::generate(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
