//! Apps in C and in Kotlin take part in rounds beside clients in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tributary_client::Outcome;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{self, Client, Job, Page, Round};
use tributary_protocol::state::AssignmentState;

use super::Listening;
use super::client::{CLASSES, Examples, FEATURES, averaged_by, distance, job_file, session};
use crate::support::{Answer, output, printed, within_reason};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client-sdk");

/// The folder with the library of `tributary-ffi`, which is built as a dependency of these tests.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a compiler.
fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{command:?}: {out}{err}");
}

/// Writes the bindings in a language.
fn write_bindings(language: uniffi::TargetLanguage, folder: &Path) {
    uniffi::generate(uniffi::GenerateOptions {
        languages: vec![language],
        source: libraries().join("libtributary_ffi.so").to_str().unwrap().into(),
        out_dir: folder.to_str().unwrap().into(),
        config_override: Some(format!("{SOURCES}/ffi/bindgen.toml").into()),
        ..uniffi::GenerateOptions::default()
    })
    .unwrap();
}

/// Compiles a program in C with all warnings.
pub(super) fn compiled(name: &str, directory: &Path) -> PathBuf {
    let (libraries, program) = (libraries(), directory.join(name));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(format!("{SOURCES}/ffi/include"));
    cc.arg(format!("{SOURCES}/ffi/c/{name}.c")).arg("-o").arg(&program);
    cc.arg("-L").arg(&libraries).args(["-ltributary_ffi", "-lm"]);
    cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
    done(&mut cc);
    program
}

/// A client in C: one of the two examples.
pub(super) fn in_c(listening: &Listening, kind: &'static str, name: &str) -> App {
    let program = compiled(name, listening.directory.path());
    let command = move |listening: &Listening, directory: &Path| {
        let mut command = Command::new(&program);
        command.args([&listening.url(), &listening.enrolment, "state", "examples.csv"]).current_dir(directory);
        command
    };
    App { kind, sdk: "c", contributed: json!({ "outcome": 1 }), command: Box::new(command) }
}

/// A job with one linear layer, which every trainer can train.
pub(super) fn linear_job(clients: usize, [inputs, classes]: [usize; 2]) -> Value {
    let mut file = job_file();
    file["model"] = json!({ "input": [inputs], "layers": [{ "kind": "linear", "out_features": classes }] });
    file["round"] = json!({ "updates_goal": clients, "updates_min": clients, "over_selection": 1.0 });
    file
}

/// Makes the command that runs one session, in a folder.
type Run = Box<dyn Fn(&Listening, &Path) -> Command>;

/// One client of an app.
pub(super) struct App {
    /// What it calls itself: its attribute `kind`.
    pub(super) kind: &'static str,
    pub(super) sdk: &'static str,
    /// Members of the last line that it prints if it has contributed, beside the round.
    pub(super) contributed: Value,
    /// Runs one session.
    pub(super) command: Run,
}

impl App {
    /// One session with these examples: the last line that it prints.
    pub(super) async fn session(&self, listening: &Listening, examples: &Examples) -> Value {
        let directory = listening.directory.path().join(self.kind);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("examples.csv"), examples.table()).unwrap();
        let printed = within_reason(printed((self.command)(listening, &directory))).await;
        serde_json::from_str(printed.lines().last().unwrap()).unwrap()
    }
}

pub(super) async fn create(listening: &Listening, job: &Value) -> Job {
    Answer::to(listening.operate(Method::POST, "/jobs").json(&json!({ "job": job }))).await.ok()
}

/// A client in Rust and these apps do one round. Its outcome is computed from their tables.
pub(super) async fn contribute_beside_rust(listening: &Listening, apps: &[App]) {
    let clients = apps.len() + 1;
    let file = linear_job(clients, [FEATURES, CLASSES]);
    let job = create(listening, &file).await;
    let tables: Vec<Examples> = (0..clients).map(|client| Examples::draw(20 + 10 * client, client as u64)).collect();
    contribute(listening, &job, apps, &tables).await;
    has_learned(listening, &job, &file, &tables, 1e-6).await;
}

/// The first table is that of a client in Rust, the others those of the apps. All of them contribute to the first round
/// of a job, which is its last one, and the operator sees the kind of each.
pub(super) async fn contribute(listening: &Listening, job: &Job, apps: &[App], tables: &[Examples]) {
    let rust = listening.directory.path().join("rust");
    let sessions = apps.iter().zip(&tables[1..]).map(|(app, table)| app.session(listening, table));
    let (outcome, printed) = within_reason(async {
        tokio::join!(session(listening, &rust, &tables[0]), futures_util::future::join_all(sessions))
    })
    .await;
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    for (app, printed) in apps.iter().zip(&printed) {
        let shown = app.contributed.as_object().unwrap().iter().all(|(name, value)| printed[name] == *value);
        assert!(shown && printed["round"] == 1, "{}: {printed}", app.kind);
    }
    listening.until_completed(job.head.id).await;

    let path = format!("/jobs/{}/rounds/1/assignments", job.head.id);
    let reported = listening.look(&path).await.ok::<Page<operator::Assignment>>().items;
    for (app, table) in apps.iter().zip(&tables[1..]) {
        let weight = Some(table.classes.len() as u64);
        let theirs = reported.iter().find(|one| one.weight == weight).unwrap();
        assert_eq!(theirs.state, AssignmentState::Reported, "{}", app.kind);
        let client: Client = listening.look(&format!("/clients/{}", theirs.client)).await.ok();
        assert_eq!(client.sdk.unwrap().as_str(), app.sdk, "{}", app.kind);
        assert_eq!(client.attributes.as_map()["kind"], app.kind);
    }
}

/// The job's model is, to this tolerance, the mean of what clients with these examples make of its first one.
pub(super) async fn has_learned(listening: &Listening, job: &Job, file: &Value, tables: &[Examples], tolerance: f64) {
    let expected = averaged_by(file, &listening.model(job.head.id, 0).await, &tables.iter().collect::<Vec<_>>());
    let error = distance(&listening.model(job.head.id, 1).await, &expected);
    assert!(error < tolerance, "the model is {error} away from the mean of all clients");
}

/// Goal: an app without Rust joins by a header and a library. Method: the two examples in C and a client in Rust do one
/// round; one lets the SDK train, the other trains itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_in_c_contribute_beside_the_sdk() {
    let listening = Listening::start().await;
    let apps = [in_c(&listening, "c-layers", "client"), in_c(&listening, "c-trainer", "trainer")];
    contribute_beside_rust(&listening, &apps).await;
    listening.stop().await;
}

/// Goal: an app in C evaluates, and a coordinator's refusal reaches it as a status with a text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_c_evaluates_and_is_told_of_a_refusal() {
    let listening = Listening::start().await;
    let program = compiled("trainer", listening.directory.path());
    let examples = Examples::draw(40, 1);
    let directory = listening.directory.path().join("c");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("examples.csv"), examples.table()).unwrap();
    let run = async |token: String| {
        let mut command = Command::new(&program);
        command.args([&listening.url(), &token, "state", "examples.csv"]).current_dir(&directory);
        within_reason(output(command)).await
    };
    let unknown = format!("tributary_enrolment_{}_ca_{}", "0".repeat(64), listening.ca.fingerprint);
    let output = run(unknown).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.starts_with("status 3: the coordinator refused"), "{told}");

    let mut file = linear_job(1, [FEATURES, CLASSES]);
    file["evaluation"] = json!({ "attributes": { "kind": "c-trainer" } });
    let job = create(&listening, &file).await;
    let rust = listening.directory.path().join("rust");
    let trained = within_reason(session(&listening, &rust, &Examples::draw(30, 2))).await;
    assert!(matches!(trained, Outcome::Contributed { round: 1, .. }), "{trained:?}");
    let output = run(listening.enrolment.clone()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    listening.until_completed(job.head.id).await;
    let rounds: Page<Round> = listening.look(&format!("/jobs/{}/rounds?task=evaluate", job.head.id)).await.ok();
    let accuracy = rounds.items[0].accuracy.unwrap();
    assert!((0.0..=1.0).contains(&accuracy) && (accuracy * 40.0).fract().abs() < 1e-9, "{accuracy} of 40 examples");
    listening.stop().await;
}

/// A hash of all files below these folders.
fn hash_of(folders: &[PathBuf]) -> Sha256Hash {
    let mut open = folders.to_vec();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        match path.is_dir() {
            true => open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
            false => files.push(std::fs::read(&path).unwrap()),
        }
    }
    files.sort();
    Sha256Hash::of(&files.concat())
}

/// Java, Kotlin's compiler and JNA, as `scripts/test` installs them.
pub(super) struct Jvm {
    kotlinc: PathBuf,
    jna: PathBuf,
}

impl Jvm {
    pub(super) fn find() -> Option<Arc<Self>> {
        let named = std::env::var_os("TRIBUTARY_TEST_KOTLINC").map(PathBuf::from);
        let made =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-kotlin/node_modules/kotlin-compiler/bin/kotlinc");
        let kotlinc = named.unwrap_or_else(|| PathBuf::from(made));
        let jna = PathBuf::from("/usr/share/java/jna.jar");
        let has_java = Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
        if has_java && kotlinc.exists() && jna.exists() {
            return Some(Arc::new(Self { kotlinc, jna }));
        }
        let missing = format!("java, {} or {} is missing", kotlinc.display(), jna.display());
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
        eprintln!("not tried: {missing}; scripts/test installs them");
        None
    }

    /// The classes of the examples and the checks. Compiling them takes half a minute of a processor, so they are kept
    /// for other tests, under a name that follows from all sources.
    pub(super) async fn compiled(self: &Arc<Self>) -> PathBuf {
        static COMPILING: Mutex<()> = Mutex::const_new(());
        let _turn = COMPILING.lock().await;
        let jvm = Arc::clone(self);
        tokio::task::spawn_blocking(move || jvm.compile()).await.unwrap()
    }

    /// Writes the bindings and compiles them with the examples and the parts of the Android adapter that need no
    /// Android.
    fn compile(&self) -> PathBuf {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let work = tempfile::tempdir_in(kept).unwrap();
        let bindings = work.path().join("bindings");
        write_bindings(uniffi::TargetLanguage::Kotlin, &bindings);
        let folders =
            ["ffi/kotlin", "android/src/main/kotlin/plain"].map(|folder| format!("{SOURCES}/{folder}").into());
        let checks = concat!(env!("CARGO_MANIFEST_DIR"), "/kotlin").into();
        let sources: Vec<PathBuf> = [bindings].into_iter().chain(folders).chain([checks]).collect();
        let classes = kept.join(format!("kotlin-{}", hash_of(&sources)));
        if !classes.exists() {
            let compiled = work.path().join("classes");
            let mut kotlinc = Command::new("bash");
            kotlinc.arg(&self.kotlinc).arg("-nowarn").arg("-classpath").arg(&self.jna).arg("-d").arg(&compiled);
            done(kotlinc.args(&sources));
            // Another process may have been faster.
            let _ = std::fs::rename(&compiled, &classes);
        }
        classes
    }

    /// A program of these classes.
    pub(super) fn run(&self, classes: &Path, main: &str) -> Command {
        let library = self.kotlinc.parent().unwrap().parent().unwrap().join("lib/kotlin-stdlib.jar");
        let path = [classes, &self.jna, &library].map(|path| path.display().to_string()).join(":");
        let mut java = Command::new("java");
        java.arg(format!("-Djna.library.path={}", libraries().display()));
        // Starts sooner; the programs run for a second.
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, main]);
        java
    }
}

/// A client on the JVM, with the SDK's trainer (`layers`) or one in Kotlin (`trainer`).
pub(super) fn in_kotlin(jvm: &Arc<Jvm>, classes: &Path, kind: &'static str, argument: &'static str) -> App {
    let (jvm, classes) = (Arc::clone(jvm), classes.to_owned());
    let command = move |listening: &Listening, directory: &Path| {
        let mut command = jvm.run(&classes, "tributary.example.ClientKt");
        command.args([argument, &listening.url(), &listening.enrolment, "state", "examples.csv"]);
        command.current_dir(directory);
        command
    };
    App { kind, sdk: "kotlin", contributed: json!({ "outcome": "contributed" }), command: Box::new(command) }
}

/// Goal: an app in Kotlin joins, whether the SDK trains or the app does, and its mistakes are exceptions. Method: the
/// example does one round beside a client in Rust; then a program of checks, which includes what the Android adapter
/// decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_in_kotlin_contribute_beside_the_sdk_and_get_exceptions_for_mistakes() {
    let Some(jvm) = Jvm::find() else { return };
    let listening = Listening::start().await;
    let classes = jvm.compiled().await;
    let apps =
        [in_kotlin(&jvm, &classes, "kotlin-layers", "layers"), in_kotlin(&jvm, &classes, "kotlin-trainer", "trainer")];
    contribute_beside_rust(&listening, &apps).await;

    let job = async |check: &str| {
        let mut file = linear_job(1, [FEATURES, CLASSES]);
        file["name"] = json!(check);
        file["eligibility"] = json!({ "attributes": { "check": check } });
        create(&listening, &file).await
    };
    let [_, _, refused, job] = [job("cancel").await, job("suspend").await, job("floor").await, job("throw").await];
    let mut checks = jvm.run(&classes, "tributary.example.ChecksKt");
    let state = listening.directory.path().join("checks");
    checks.args([listening.url().as_str(), &listening.enrolment]).arg(&state);
    let printed = within_reason(printed(checks)).await;
    assert_eq!(printed.trim(), "all checks passed");
    let path = format!("/jobs/{}/rounds/1/assignments", job.head.id);
    let text = String::from_utf8(listening.look(&path).await.body.to_vec()).unwrap();
    let is_told = text.contains("java.lang.IllegalStateException") && !text.contains("the disk of the phone");
    assert!(is_told, "the operator reads the kind of what a trainer threw: {text}");
    let path = format!("/jobs/{}/rounds/1/assignments", refused.head.id);
    let refused: Page<operator::Assignment> = listening.look(&path).await.ok();
    let reason = refused.items[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("would read what this client sends"), "{:?}", refused.items);
    let client: Client = listening.look(&format!("/clients/{}", refused.items[0].client)).await.ok();
    assert_eq!(client.consent.unwrap().text, "consent-v3");
    listening.stop().await;
}

/// Goal: the packages for phones fit the bindings, although neither Xcode nor an Android SDK builds them here. Method:
/// the files and the module of the Swift bindings are those that `ios/build.sh` moves and `Package.swift` names, and
/// what the Android adapter imports is in the Kotlin bindings.
#[test]
fn packages_for_phones_name_what_is_in_the_bindings() {
    let folder = tempfile::tempdir().unwrap();
    write_bindings(uniffi::TargetLanguage::Swift, folder.path());
    let written = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut written: Vec<String> = written.map(|name| name.into_string().unwrap()).collect();
    written.sort();
    assert_eq!(written, ["Tributary.swift", "TributaryFFI.h", "TributaryFFI.modulemap"]);
    let module = std::fs::read_to_string(folder.path().join("TributaryFFI.modulemap")).unwrap();
    assert!(module.starts_with("module TributaryFFI {"), "{module}");
    let package = std::fs::read_to_string(format!("{SOURCES}/ios/Package.swift")).unwrap();
    assert!(package.contains(r#".binaryTarget(name: "TributaryFFI", path: "build/TributaryFFI.xcframework")"#));
    assert!(package.contains(r#".target(name: "Tributary", dependencies: ["TributaryFFI"], path: "build/Tributary""#));

    write_bindings(uniffi::TargetLanguage::Kotlin, folder.path());
    let bindings = std::fs::read_to_string(folder.path().join("tributary/tributary.kt")).unwrap();
    let mut imports = 0;
    for source in std::fs::read_dir(format!("{SOURCES}/android/src/main/kotlin/android")).unwrap() {
        let text = std::fs::read_to_string(source.unwrap().path()).unwrap();
        for name in text.lines().filter_map(|line| line.strip_prefix("import tributary.")) {
            let declared = ["class", "interface"].map(|kind| format!("{kind} {name}"));
            let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
            let found = declared.iter().any(|what| bindings.split(what.as_str()).skip(1).any(is_whole));
            assert!(found, "the bindings declare no {name}");
            imports += 1;
        }
    }
    assert!(imports > 0);
}
