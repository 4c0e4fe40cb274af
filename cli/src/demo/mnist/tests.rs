//! A small MNIST of two training images and one test image, downloaded from a local server.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use tributary_client::examples::Examples;
use tributary_protocol::hash::Sha256Hash;

use super::*;
use crate::data::labels;
use crate::error::Failure;
use crate::testing::serve;

/// Names and contents.
type Contents = [(&'static str, Vec<u8>); 4];

fn small_contents() -> Contents {
    let idx = |dimensions: &[u8], values: &[u8]| {
        let mut content = vec![0, 0, 8, dimensions.len() as u8];
        dimensions.iter().for_each(|length| content.extend([0, 0, 0, *length]));
        content.extend(values);
        content
    };
    [
        ("train-images-idx3-ubyte", idx(&[2, 1, 2], &[0, 255, 51, 102])),
        ("train-labels-idx1-ubyte", idx(&[2], &[3, 9])),
        ("t10k-images-idx3-ubyte", idx(&[1, 1, 2], &[255, 0])),
        ("t10k-labels-idx1-ubyte", idx(&[1], &[5])),
    ]
}

fn table(contents: &Contents) -> MnistFiles {
    contents.clone().map(|(name, content)| MnistFile {
        name,
        bytes: content.len() as u64,
        sha256: Sha256Hash::of(&content),
    })
}

fn gzipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Serves files below `/mnist/`, and lists those that were requested.
async fn mirror(files: HashMap<String, Vec<u8>>) -> (Url, Arc<Mutex<Vec<String>>>) {
    let requested = Arc::new(Mutex::new(vec![]));
    let state = (Arc::new(files), Arc::clone(&requested));
    type Files = (Arc<HashMap<String, Vec<u8>>>, Arc<Mutex<Vec<String>>>);
    let file = async |State((files, requested)): State<Files>, UrlPath(name): UrlPath<String>| {
        requested.lock().unwrap().push(name.clone());
        files.get(&name).cloned().ok_or(StatusCode::NOT_FOUND)
    };
    let server = serve(Router::new().route("/mnist/{name}", get(file)).with_state(state)).await;
    (server.join("/mnist/").unwrap(), requested)
}

fn packed(contents: &Contents) -> HashMap<String, Vec<u8>> {
    contents.iter().map(|(name, content)| (format!("{name}.gz"), gzipped(content))).collect()
}

async fn load_flat(folder: &Path, url: &Url) -> Result<DemoData, MnistError> {
    load(folder, url, &table(&small_contents()), IdxShape::Flat, |_| {}).await
}

fn names_in(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn missing_files_are_downloaded_once_and_the_rest_is_read_packed_or_plain() {
    let folder = tempfile::tempdir().unwrap();
    let contents = small_contents();
    std::fs::write(folder.path().join(contents[0].0), &contents[0].1).unwrap();
    let (url, requested) = mirror(packed(&contents)).await;
    for _ in 0..2 {
        let data = load_flat(folder.path(), &url).await.unwrap();
        assert_eq!(data.train.batch(&[0, 1]).unwrap().inputs, [0.0, 1.0, 0.2, 0.4]);
        assert_eq!((labels(&data.train).unwrap(), labels(&data.test).unwrap()), (vec![3, 9], vec![5]));
    }
    let expected = ["train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"];
    assert_eq!(*requested.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_missing_folder_is_created_but_not_a_whole_path() {
    let folder = tempfile::tempdir().unwrap();
    let (url, _) = mirror(packed(&small_contents())).await;
    load_flat(&folder.path().join("new"), &url).await.unwrap();
    let error = load_flat(&folder.path().join("mistyped/new"), &url).await.unwrap_err();
    assert!(matches!(&error, MnistError::Folder { path, .. } if path.ends_with("mistyped/new")), "{error}");
}

#[tokio::test]
async fn downloads_that_are_not_the_original_are_named_and_leave_nothing_behind() {
    let contents = small_contents();
    let other = [contents[0].1.as_slice(), &[1]].concat();
    for (served, said) in [
        (gzipped(&other), "instead of"),
        (gzipped(&contents[0].1)[..20].to_vec(), "cannot be unpacked"),
        (b"<html>log in first</html>".to_vec(), "instead of"),
        (vec![0; 10_000], "longer than the file can be"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut files = packed(&contents);
        files.insert("train-images-idx3-ubyte.gz".into(), served);
        let error = load_flat(folder.path(), &mirror(files).await.0).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/mnist/train-images-idx3-ubyte.gz: ") && text.contains(said), "{text}");
        assert_eq!(names_in(&folder), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_mirror_without_the_file_and_no_network_are_download_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, _) = mirror(HashMap::new()).await;
    let error = load_flat(folder.path(), &empty).await.unwrap_err();
    assert!(matches!(&error, MnistError::Download { cause, .. } if cause.contains("404")), "{error}");
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap()
    };
    let error = load_flat(folder.path(), &closed).await.unwrap_err();
    assert!(matches!(&error, MnistError::Download { .. }) && error.hint().unwrap().contains("--data-dir"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_changed_is_refused_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let contents = small_contents();
    std::fs::write(folder.path().join("train-labels-idx1-ubyte"), b"other").unwrap();
    let (url, _) = mirror(packed(&contents)).await;
    let error = load_flat(folder.path(), &url).await.unwrap_err();
    assert!(matches!(&error, MnistError::WrongContent { name: "train-labels-idx1-ubyte", .. }), "{error}");
    assert_eq!(std::fs::read(folder.path().join("train-labels-idx1-ubyte")).unwrap(), b"other");
}

#[test]
fn the_original_files_have_the_sizes_of_their_images_and_labels() {
    let [train_images, train_labels, test_images, test_labels] = original_files();
    assert_eq!((train_images.bytes, train_labels.bytes), (16 + 60_000 * 28 * 28, 8 + 60_000));
    assert_eq!((test_images.bytes, test_labels.bytes), (16 + 10_000 * 28 * 28, 8 + 10_000));
}
