//! A job file as MLflow's parameters.

use serde_json::Value;
use tributary_protocol::operator::Job;

/// Longest value of a parameter that older releases accept.
const PARAM_BYTES_MAX: usize = 500;

/// Pairs of names and texts: `training.epochs` and `5`. Lists are JSON.
pub(super) fn params_of(job: &Job) -> Vec<(String, String)> {
    let mut params = Vec::new();
    let file = serde_json::to_value(&job.file).expect("a job file has string keys");
    flatten(String::new(), &file, &mut params);
    params
}

fn flatten(name: String, value: &Value, params: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                flatten(name, value, params);
            }
        }
        Value::Null => {}
        Value::String(text) => params.push((name, shortened(text))),
        other => params.push((name, shortened(&other.to_string()))),
    }
}

fn shortened(text: &str) -> String {
    const MARK: &str = " ..";
    if text.len() <= PARAM_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=PARAM_BYTES_MAX - MARK.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_layers_is_shortened_at_a_character() {
        assert_eq!(shortened("short"), "short");
        let long = "\u{e9}".repeat(400);
        let short = shortened(&long);
        assert!(short.len() <= PARAM_BYTES_MAX && short.ends_with(" .."));
    }
}
