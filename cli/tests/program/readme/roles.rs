//! `docs/start.md` does what it says, for each of its four readers.

use super::pages::{Block, blocks, repository};
use super::{Reader, SERVE, serve};

/// The commands of a section, which follow those that all readers type first. Returns what they printed.
fn follow(section: &str) -> String {
    let page = std::fs::read_to_string(repository().join("docs/start.md")).unwrap();
    let (first, rest) = page.split_once("\n## ").expect("the page has sections");
    let commands = |text: &str| -> Vec<Block> {
        blocks(text).into_iter().inspect(|block| assert_eq!(block.language, "sh", "{}", block.text)).collect()
    };
    let mine = rest.split("\n## ").find(|part| part.starts_with(section));
    let mine = mine.unwrap_or_else(|| panic!("the page has no section {section:?}"));
    let reader = Reader::new();
    reader.tools.install();
    let mut coordinator = reader.terminal(&[("TRIBUTARY_LISTEN", "127.0.0.1:0")]);
    let server = serve(&mut coordinator);
    let mut terminal = reader.terminal(&[("TRIBUTARY_SERVER", &server)]);
    let typed = commands(first).into_iter().filter(|block| block.text != SERVE).chain(commands(mine));
    let served = server.trim_end_matches('/');
    typed.map(|block| terminal.run(&reader.completed(&block.text).replace("http://127.0.0.1:7300", served))).collect()
}

#[test]
fn an_app_developer_has_an_app_that_predicts() {
    let printed = follow("An app developer");
    assert!(printed.contains("round   2 committed"), "{printed}");
    assert!(printed.contains("written to stable.safetensors"), "{printed}");
    assert!(["left  ", "right  "].iter().any(|class| printed.contains(class)), "{printed}");
}

#[test]
fn a_silo_teaches_a_model_uses_it_and_leaves() {
    let printed = follow("A silo");
    assert!(printed.contains("ward.csv fits the job ward: 400 rows"), "{printed}");
    assert!(printed.contains("the job ward is completed"), "{printed}");
    assert!(["ill  ", "well  "].iter().all(|class| printed.contains(class)), "{printed}");
    assert!(printed.contains("the client of silo has left"), "{printed}");
}

#[test]
fn an_operator_releases_takes_back_and_restores() {
    let printed = follow("An operator");
    assert!(printed.contains("the job first is completed"), "{printed}");
    assert!(printed.contains("withdrew release 2 of stable"), "{printed}");
    assert!(printed.contains("entries, none changed, missing or moved"), "{printed}");
    assert!(printed.contains("restored.db is restored from copy.db"), "{printed}");
}

#[test]
fn a_researcher_repeats_and_compares() {
    let printed = follow("A researcher");
    let hashes: Vec<&str> = printed.lines().filter(|line| line.starts_with("SHA-256")).take(2).collect();
    assert!(hashes.len() == 2 && hashes[0] == hashes[1], "{printed}");
    assert!(printed.contains("the job adam is completed"), "{printed}");
    assert!(printed.contains("aggregation.optimizer"), "{printed}");
}
