//! Builds the web page with npm when its sources have changed.
//!
//! Everything is written under `OUT_DIR`: the sources are copied there first, so that the source tree stays as it is. A
//! page that cannot be built (no npm, no network) is no error: the program then embeds `fallback/`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Sources of the page, relative to `web/`: without tests, mock and development tools.
const SOURCES: &[&str] =
    &["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src", "join"];
/// Environment variable that names a folder with a finished build.
const READY_BUILD: &str = "TRIBUTARY_DASHBOARD_DIST";
/// The same for the SDK for browsers, which scripts/browser makes. Without it the page `/join` says that it is missing:
/// a newcomer's build needs neither another compiler target nor its time.
const READY_SDK: &str = "TRIBUTARY_BROWSER_DIST";
/// Last lines of npm's output that a warning shows.
const OUTPUT_LINES_MAX: usize = 6;

fn main() -> io::Result<()> {
    for source in SOURCES {
        println!("cargo:rerun-if-changed=web/{source}");
    }
    println!("cargo:rerun-if-changed=fallback");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={READY_BUILD}");
    println!("cargo:rerun-if-env-changed={READY_SDK}");

    let out = variable("OUT_DIR")?;
    let here = variable("CARGO_MANIFEST_DIR")?;
    let dist = out.join("dist");
    if let Ok(ready) = variable(READY_BUILD) {
        println!("cargo:rerun-if-changed={}", ready.display());
        replace(&ready, &dist)?;
    } else if let Err(reason) = build(&here.join("web"), &out.join("web"), &dist) {
        println!("cargo:warning=the dashboard is not in this build: {reason}");
        println!(
            "cargo:warning=the program serves a page that says how to get it; `touch dashboard/build.rs` tries again"
        );
        replace(&here.join("fallback"), &dist)?;
    }
    if let Ok(ready) = variable(READY_SDK) {
        println!("cargo:rerun-if-changed={}", ready.display());
        replace(&ready, &dist.join("join/tributary"))?;
    }
    Ok(())
}

/// Copies the sources to `work`, installs the packages of the lock file when it has changed, and builds into `dist`.
/// Development tools stay out: with them the packages take 157 MB instead of 39 MB.
fn build(web: &Path, work: &Path, dist: &Path) -> Result<(), String> {
    let read = |error: io::Error| format!("its sources cannot be copied: {error}");
    let lock = fs::read(web.join("package-lock.json")).map_err(read)?;
    let installed = work.join("installed-lock.json");
    fs::create_dir_all(work).map_err(read)?;
    for source in SOURCES {
        replace(&web.join(source), &work.join(source)).map_err(read)?;
    }
    if fs::read(&installed).ok().as_ref() != Some(&lock) {
        let arguments = ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
        npm(work, dist, &arguments)?;
        fs::write(&installed, &lock).map_err(read)?;
    }
    npm(work, dist, &["run", "build"])?;
    if dist.join("index.html").is_file() { Ok(()) } else { Err("npm run build made no index.html".to_owned()) }
}

fn npm(work: &Path, dist: &Path, arguments: &[&str]) -> Result<(), String> {
    let program = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(work)
        .env("TRIBUTARY_DASHBOARD_OUT", dist)
        // One retry: without a network, the build should not wait long.
        .env("npm_config_fetch_retries", "1")
        .env("npm_config_update_notifier", "false")
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "npm is not installed".to_owned(),
            _ => format!("npm does not start: {error}"),
        })?;
    if output.status.success() { Ok(()) } else { Err(format!("npm {} failed: {}", arguments[0], last_lines(&output))) }
}

/// The last lines of npm's output, in one line.
fn last_lines(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join(" | ")
}

/// Makes `to` a copy of `from`, a file or a folder, and nothing else.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if to.is_dir() {
        fs::remove_dir_all(to)?;
    }
    if from.is_file() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() != OsStr::new("node_modules") {
            replace(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn variable(name: &str) -> io::Result<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("{name} is not set")))
}
