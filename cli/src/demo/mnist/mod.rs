//! MNIST from its four IDX files, gzipped or not; missing ones are downloaded. Each is checked against the hash of the
//! original, so that accuracies can be compared with published ones.

mod download;
mod error;
mod file;

use std::path::Path;

use reqwest::Url;
use tributary_client::examples::{IdxShape, MemoryExamples, read_idx_examples};

use super::data::DemoData;
use error::MnistError;
use file::{MnistFile, find, read_checked};

/// The default of --mnist-url.
pub(crate) const DOWNLOAD_URL: &str = "https://ossci-datasets.s3.amazonaws.com/mnist/";

/// Training images, training labels, test images, test labels.
pub(crate) type MnistFiles = [MnistFile; 4];

/// The original distribution (LeCun, Cortes and Burges). The hashes were computed from files with the published MD5
/// sums 6bbc9ace898e44ae57da46a324031adb (training images) and 2646ac647ad5339dbf082846283269ea (test images).
pub(crate) fn original_files() -> MnistFiles {
    let file =
        |name, bytes, sha256: &str| MnistFile { name, bytes, sha256: sha256.parse().expect("64 hexadecimal digits") };
    [
        file("train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        file("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        file("t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        file("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ]
}

/// Loads training and test examples from `folder`. Missing files are downloaded from `base_url`, which ends in a slash;
/// `note` prints a line for each.
pub(crate) async fn load(
    folder: &Path,
    base_url: &Url,
    files: &MnistFiles,
    shape: IdxShape,
    note: impl Fn(&str),
) -> Result<DemoData, MnistError> {
    let mut paths = Vec::new();
    for file in files {
        let path = match find(folder, file) {
            Some(path) => path,
            None => download::download(folder, base_url, file, &note).await?,
        };
        paths.push(path);
    }
    let examples = |images: usize, labels: usize| -> Result<MemoryExamples, MnistError> {
        let images = read_checked(&paths[images], &files[images])?;
        let labels = read_checked(&paths[labels], &files[labels])?;
        Ok(read_idx_examples(&images[..], &labels[..], shape)?)
    };
    Ok(DemoData { train: examples(0, 1)?, test: examples(2, 3)?, split: None })
}

#[cfg(test)]
mod tests;
