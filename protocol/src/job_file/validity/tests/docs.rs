//! The tables of the pages about what goes together.

use std::collections::BTreeSet;

use super::{Demand, Need, Setting, is_written, settings};

const BEGIN: &str = "<!-- generated from protocol/src/job_file/validity by its test -->\n";
const END: &str = "\n<!-- end of what is generated -->\n";

type Demands = fn(&Setting) -> &Vec<Demand>;
const NEEDS: Demands = |setting| &setting.needs;
const DENIES: Demands = |setting| &setting.denies;

/// The settings with a demand of this need, each with its reason.
fn having(settings: &[Setting], need: Need, demands: Demands) -> Vec<(&Setting, &'static str)> {
    let of_need = |setting| demands(setting).iter().find(|demand| demand.of.contains(&need));
    settings.iter().filter_map(|setting| Some((setting, of_need(setting)?.why))).collect()
}

/// Settings and their reasons in words: values of one setting with the same reason together, each key once.
fn cell(having: &[(&Setting, &'static str)]) -> String {
    let mut parts: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for (setting, why) in having {
        let is_value = setting.key.rsplit(' ').next() != setting.name.rsplit(' ').next();
        let value = if setting.name.contains(' ') { setting.name.clone() } else { format!("`{}`", setting.name) };
        match parts.iter_mut().find(|part| (part.0, part.1) == (setting.key, *why)) {
            Some((.., values)) => values.push(value),
            None => parts.push((setting.key, why, if is_value { vec![value] } else { Vec::new() })),
        }
    }
    let mut text = String::new();
    for (at, (key, why, values)) in parts.iter().enumerate() {
        let is_again = at > 0 && parts[at - 1].0 == *key;
        let key = if is_again { Vec::new() } else { vec![format!("`{key}`")] };
        let words = [key, if values.is_empty() { Vec::new() } else { vec![values.join(", ")] }].concat();
        text += &format!("{}{}: {why}", if at > 0 { "; " } else { "" }, words.join(" "));
    }
    text
}

/// Rows of the needs of one page: those that settings of rounds have or take away, or the others.
fn table(is_of_tempo: bool) -> String {
    let settings = settings();
    let is_tempo = |having: &[(&Setting, &str)]| {
        having.iter().all(|(setting, _)| setting.key.starts_with("[round]") || setting.key.starts_with("[eligibility]"))
    };
    let denied = settings.iter().flat_map(|setting| setting.denies.iter().flat_map(|demand| demand.of.iter().copied()));
    let mut text =
        "\n| needed by, because it .. | taken away by, because it .. | what to do |\n|---|---|---|\n".to_owned();
    for need in denied.collect::<BTreeSet<Need>>() {
        let (needs, denies) = (having(&settings, need, NEEDS), having(&settings, need, DENIES));
        if is_of_tempo == (is_tempo(&needs) || is_tempo(&denies)) {
            text += &format!("| {} | {} | {} |\n", cell(&needs), cell(&denies), need.remedy());
        }
    }
    text
}

#[test]
fn the_pages_have_the_tables_of_what_goes_together() {
    for (page, is_of_tempo) in [("rules.md", false), ("tempo.md", true)] {
        let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once(BEGIN).expect("the page has a table");
        let (_, tail) = rest.split_once(END).expect("the table has an end");
        is_written(&path, &text, &format!("{head}{BEGIN}{}{END}{tail}", table(is_of_tempo)));
    }
}
