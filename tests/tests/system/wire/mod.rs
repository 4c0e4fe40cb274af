//! Recorded exchanges of each release, in `tests/wire/RELEASE`: a client of that release plays against this
//! coordinator, and this SDK against a coordinator of that release.
//!
//! `TRIBUTARY_TEST_WRITE_WIRE=1` records those of the release that is built. Recordings of earlier releases never
//! change.

mod by_hand;
mod exchange;
mod old_client;
mod old_coordinator;
mod recording;
mod stories;

use std::fs;
use std::path::PathBuf;

use self::exchange::Recorded;
use self::stories::Story;

/// When set, recordings of this release are written.
const WRITE: &str = "TRIBUTARY_TEST_WRITE_WIRE";
const RELEASE: &str = env!("CARGO_PKG_VERSION");

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/wire"))
}

fn file(release: &str, story: Story) -> PathBuf {
    directory().join(release).join(format!("{}.json", story.name()))
}

/// Every recording of every release, in order.
fn recordings() -> Vec<(String, Story, Recorded)> {
    let mut releases: Vec<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    releases.sort();
    let mut all = Vec::new();
    for release in releases {
        for story in Story::ALL {
            // Later releases may tell more stories.
            if let Ok(text) = fs::read_to_string(file(&release, story)) {
                all.push((release.clone(), story, serde_json::from_str(&text).unwrap()));
            }
        }
    }
    all
}

#[tokio::test]
async fn every_story_of_this_release_is_recorded() {
    for story in Story::ALL {
        let file = file(RELEASE, story);
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&Box::pin(story.record()).await).unwrap()))
                .unwrap();
        }
        assert!(file.exists(), "{} is missing: run this test with {WRITE}=1 and commit what it writes", file.display());
    }
}

#[tokio::test]
async fn clients_of_every_release_can_talk_to_this_coordinator() {
    let recordings = recordings();
    assert!(!recordings.is_empty());
    for (release, story, recorded) in recordings.into_iter().filter(|(_, story, _)| story.is_kept()) {
        Box::pin(old_client::play(&format!("{release} {}", story.name()), story, &recorded)).await;
    }
}

#[tokio::test]
async fn this_sdk_can_talk_to_coordinators_of_every_release() {
    let mut played = 0;
    for (release, story, recorded) in recordings() {
        if let Some(expected) = story.outcome() {
            let outcome = old_coordinator::play(&format!("{release} {}", story.name()), story, &recorded).await;
            assert_eq!(outcome, expected, "{release} {}", story.name());
            played += 1;
        }
    }
    assert!(played >= 4, "{played}");
}
