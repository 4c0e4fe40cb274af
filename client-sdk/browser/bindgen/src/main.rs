//! Usage: tributary-bindgen WASM FOLDER

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [wasm, folder] = &arguments[..] else {
        eprintln!("usage: tributary-bindgen WASM FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    let made = bindgen.input_path(wasm).web(true).and_then(|bindgen| bindgen.typescript(false).generate(folder));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
