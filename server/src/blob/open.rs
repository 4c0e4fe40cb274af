//! Opens the store of bodies: the one that the URL of `--blobs` names, or the folder beside a SQLite database.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

use super::store::{CALL_TIMEOUT, OpenedStore};

#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("{0:?} is not an object store: it must be file:///DIRECTORY, s3://BUCKET/PREFIX, gs://.. or az://..")]
    UnknownKind(String),
    #[error("{directory}: cannot make the directory for blobs: {source}")]
    Directory { directory: String, source: std::io::Error },
    #[error("{0:?}: this program was built without cloud stores; build it with `--features full`, or use a release")]
    NotBuilt(String),
    /// A setting is missing or invalid.
    #[error("the object store {url:?} cannot be opened: {source}")]
    Settings { url: String, source: object_store::Error },
}

/// Opens the store that a URL names: `file:///DIRECTORY`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
/// `az://CONTAINER/PREFIX`, or `memory:///`, which is for tests. `settings` are those of the `object_store` crate
/// (`aws_endpoint`, ..), in upper or lower case; unknown ones are ignored. No call to the store is made yet.
pub fn open_store(
    text: &str,
    settings: impl IntoIterator<Item = (String, String)>,
) -> Result<OpenedStore, OpenStoreError> {
    let unknown = || OpenStoreError::UnknownKind(text.to_owned());
    let url: Url = text.parse().map_err(|_| unknown())?;
    match ObjectStoreScheme::parse(&url).map_err(|_| unknown())?.0 {
        ObjectStoreScheme::Local => open_folder(&url.to_file_path().map_err(|()| unknown())?),
        ObjectStoreScheme::Http => Err(unknown()),
        ObjectStoreScheme::Memory => {
            let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            Ok(OpenedStore::new(memory, Path::default(), CALL_TIMEOUT))
        }
        _ if !cfg!(feature = "clouds") => Err(OpenStoreError::NotBuilt(text.to_owned())),
        _ => {
            // The store's HTTP client uses the TLS provider of the process.
            tributary_tls::install();
            let opened = object_store::parse_url_opts(&url, settings);
            let (store, prefix) = opened.map_err(|source| OpenStoreError::Settings { url: text.to_owned(), source })?;
            Ok(OpenedStore::new(store.into(), prefix, CALL_TIMEOUT))
        }
    }
}

/// Opens the folder of files beside a SQLite database. Bodies of at most one chunk stay in the database, where they are
/// part of a transaction that is synced anyway. A larger body is written once as files; SQLite would write each byte to
/// its log and then to its place.
pub fn open_beside(database: &FilePath) -> Result<OpenedStore, OpenStoreError> {
    let folder = folder_beside(database);
    make_private(&folder)
        .map_err(|source| OpenStoreError::Directory { directory: folder.display().to_string(), source })?;
    Ok(OpenedStore { is_beside: true, ..open_folder(&folder)? })
}

/// Creates a folder that only its owner can read, as a new database is.
fn make_private(folder: &FilePath) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // It fails for a folder that exists, unlike with `recursive`, which would also create the folder of the database.
    match builder.create(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// The folder of the bodies of a SQLite database: `DATABASE.bodies`.
pub fn folder_beside(database: &FilePath) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".bodies");
    name.into()
}

fn open_folder(folder: &FilePath) -> Result<OpenedStore, OpenStoreError> {
    let failed = |source| OpenStoreError::Directory { directory: folder.display().to_string(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let folder = folder.canonicalize().map_err(failed)?;
    let objects = LocalFileSystem::new_with_prefix(&folder)
        .map_err(|source| OpenStoreError::Settings { url: folder.display().to_string(), source })?;
    // Each body has a separate folder, which would stay.
    let objects: Arc<dyn ObjectStore> = Arc::new(objects.with_automatic_cleanup(true));
    Ok(OpenedStore { folder: Some(folder), ..OpenedStore::new(objects, Path::default(), CALL_TIMEOUT) })
}

/// The settings of object stores in the environment, under the names that the providers' own tools use: variables that
/// begin with `AWS_`, `GOOGLE_` or `AZURE_`. The crate would also accept a `TOKEN` or `REGION` that is meant for
/// another program.
pub fn environment() -> Vec<(String, String)> {
    let is_ours = |name: &String| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix));
    // `vars` panics at a variable that is not Unicode.
    let texts = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    texts
        .filter(|(name, _)| is_ours(name))
        .filter_map(|(name, value)| Some((name, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_store_opens_by_its_url_and_the_prefix_is_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        let settings = || {
            let settings = [
                ("AWS_REGION", "eu-central-1"),
                ("AWS_ACCESS_KEY_ID", "key"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
                ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
            ];
            settings.map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let file = Url::from_directory_path(&directory).unwrap();
        for (url, prefix) in [
            (file.as_str(), ""),
            ("memory:///", ""),
            ("s3://bucket/fl/one", "fl/one"),
            ("gs://bucket", ""),
            ("az://container/fl", "fl"),
        ] {
            let is_cloud = !url.starts_with("file:") && !url.starts_with("memory:");
            match open_store(url, settings()) {
                Err(OpenStoreError::NotBuilt(_)) => assert!(is_cloud && !cfg!(feature = "clouds"), "{url}"),
                opened => assert_eq!(opened.unwrap().prefix.as_ref(), prefix, "{url}"),
            }
        }
        assert!(directory.is_dir());
    }

    #[test]
    fn another_url_is_refused_with_the_kinds_that_there_are() {
        for url in ["", "bucket/prefix", "ftp://x/y", "https://example.org/x", "file://host/x"] {
            let error = open_store(url, []).unwrap_err();
            assert!(matches!(error, OpenStoreError::UnknownKind(_)), "{url}: {error}");
        }
    }
}
