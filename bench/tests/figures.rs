//! What programs rely on: the names of figures.

use std::process::Command;

#[test]
fn the_figures_of_a_codec_are_json_objects_with_their_names() {
    let arguments = ["codec", "--params", "1000", "--codec", "int8", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_tributary-bench")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!figures.is_empty());
    for figure in figures {
        assert_eq!((figure["codec"].as_str(), figure["params"].as_u64()), (Some("int8"), Some(1_000)));
        assert!((8.0..16.0).contains(&figure["bits_per_parameter"].as_f64().unwrap()), "{figure}");
        assert!(figure["relative_squared_error"].as_f64().unwrap() < 0.01, "{figure}");
    }
}
