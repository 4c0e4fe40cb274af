//! The dashboard's files, embedded in the binary. `build.rs` makes them from `web/`.

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "$OUT_DIR/dist"]
struct Files;

/// One file of the dashboard.
#[derive(Clone, Debug)]
pub struct File {
    /// The content, uncompressed.
    pub bytes: Cow<'static, [u8]>,
    /// Media type, such as `text/css`.
    pub content_type: String,
    /// The same content as gzip, where that is smaller.
    pub gzip: Option<Cow<'static, [u8]>>,
}

/// The file at a path relative to the dashboard's root, such as `index.html`.
#[must_use]
pub fn file(path: &str) -> Option<File> {
    if path.ends_with(".gz") {
        return None;
    }
    let file = Files::get(path)?;
    let gzip = Files::get(&format!("{path}.gz")).map(|gzip| gzip.data);
    let gzip = gzip.filter(|gzip| gzip.len() < file.data.len());
    Some(File { content_type: file.metadata.mimetype().to_owned(), bytes: file.data, gzip })
}

/// Whether the page was built. Without npm, `fallback/` is embedded instead, which says how to get it.
#[must_use]
pub fn is_complete() -> bool {
    Files::iter().any(|path| path.starts_with("assets/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What scripts, styles and pages may weigh together, as gzip, in bytes.
    const WEIGHT_MAX: usize = 150_000;

    fn text(file: &File) -> String {
        String::from_utf8(file.bytes.to_vec()).expect("UTF-8")
    }

    #[test]
    fn the_start_page_is_there_and_loads_nothing_from_elsewhere() {
        let page = file("index.html").expect("the start page");
        assert_eq!(page.content_type, "text/html");
        let html = text(&page);
        assert!(html.contains("Tributary") && !html.contains("http://") && !html.contains("https://"));
        assert!(file("../Cargo.toml").is_none());
    }

    #[test]
    fn no_page_has_inline_code_which_the_policy_would_refuse() {
        for path in Files::iter().filter(|path| path.ends_with(".html")) {
            let html = text(&file(&path).expect("a listed file"));
            assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick="), "{path}");
            let is_loaded = |script: &str| script.contains("src=") && script.contains("></script>");
            assert!(html.split("<script").skip(1).all(is_loaded), "{path}");
        }
    }

    #[test]
    fn every_text_comes_as_gzip_too_and_all_of_them_are_light() {
        if !is_complete() {
            return;
        }
        let mut weight = 0;
        for path in Files::iter().filter(|path| path.ends_with(".js") || path.ends_with(".css")) {
            let file = file(&path).expect("a listed file");
            weight += file.gzip.expect("its gzip").len();
        }
        assert!(weight > 0 && weight < WEIGHT_MAX, "{weight} bytes");
        assert!(file("index.html.gz").is_none());
    }
}
