//! The dashboard's files, embedded in the binary.

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "files/"]
struct Files;

/// One file of the dashboard.
#[derive(Clone, Debug)]
pub struct File {
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
    /// Its media type.
    pub content_type: String,
}

/// The file at a path relative to the dashboard's root, such as `index.html`.
#[must_use]
pub fn file(path: &str) -> Option<File> {
    let file = Files::get(path)?;
    Some(File { content_type: file.metadata.mimetype().to_owned(), bytes: file.data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_page_is_there_and_loads_nothing_from_elsewhere() {
        let page = file("index.html").expect("the start page");
        assert_eq!(page.content_type, "text/html");
        let html = String::from_utf8(page.bytes.into_owned()).expect("UTF-8");
        assert!(html.contains("Tributary") && !html.contains("http://") && !html.contains("https://"));
        assert!(file("../Cargo.toml").is_none());
    }
}
