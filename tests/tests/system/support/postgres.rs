//! A PostgreSQL cluster of the tests' own: made from nothing in a temporary directory, reached by a Unix socket only.
//!
//! The tests that run at the same time share it; the last one to leave ends it. Each test gets a separate database,
//! copied from one that has the schema.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;

use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tributary_server::db::Db;

/// The user whom PostgreSQL runs as when the tests run as root, which it refuses.
const USER: &str = "postgres";

static SHARED: Mutex<Weak<Cluster>> = Mutex::const_new(Weak::new());

/// A fresh database with the schema.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) url: String,
    _cluster: Arc<Cluster>,
}

/// A running cluster; dropping it ends it.
struct Cluster {
    directory: TempDir,
    databases: AtomicU32,
    /// Dropped to end the server.
    stop: Option<mpsc::Sender<()>>,
    supervisor: Option<JoinHandle<()>>,
}

/// A separate database for one test; none where PostgreSQL is not installed (under CI that is a failure).
pub(crate) async fn postgres() -> Option<Database> {
    let Some(programs) = programs() else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "PostgreSQL is not installed");
        eprintln!("not tried: PostgreSQL is not installed (no initdb in /usr/lib/postgresql/*/bin or on PATH)");
        return None;
    };
    let cluster = {
        let mut shared = SHARED.lock().await;
        match shared.upgrade() {
            Some(cluster) => cluster,
            None => {
                let cluster = Arc::new(Cluster::start(&programs).await);
                *shared = Arc::downgrade(&cluster);
                cluster
            }
        }
    };
    let name = format!("test_{}", cluster.databases.fetch_add(1, Ordering::Relaxed));
    cluster.execute(&format!("create database {name} template migrated")).await;
    Some(Database { url: cluster.url(&name), _cluster: cluster })
}

/// Where PostgreSQL's programs are; the newest release that is installed.
fn programs() -> Option<PathBuf> {
    let releases = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = releases.map(|release| release.path().join("bin")).collect();
    installed.sort_by_key(|bin| {
        let release = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(release)
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    installed.extend(std::env::split_paths(&path));
    installed.into_iter().find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
}

impl Cluster {
    async fn start(programs: &Path) -> Self {
        let directory = TempDir::new().unwrap();
        let owner = unprivileged_user();
        if let Some((user, group)) = owner {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let data = directory.path().join("data");
        let made = command(&programs.join("initdb"), owner)
            .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username=postgres", "--pgdata"])
            .arg(&data)
            .current_dir("/")
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));

        let mut server = command(&programs.join("postgres"), owner);
        server.arg("-D").arg(&data).arg("-k").arg(directory.path());
        for setting in ["listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=500"] {
            server.args(["-c", setting]);
        }
        server.current_dir("/").stdout(Stdio::null()).stderr(Stdio::piped());
        let (ready_sender, ready) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        // The server dies with the thread that started it, so that thread lives as long as the server should.
        let supervisor = std::thread::spawn(move || supervise(server, &ready_sender, &stopped));
        let said = tokio::task::spawn_blocking(move || ready.recv()).await.unwrap();
        assert_eq!(said.as_deref(), Ok("ready"), "PostgreSQL did not start");
        let cluster = Self { directory, databases: AtomicU32::new(0), stop: Some(stop), supervisor: Some(supervisor) };
        cluster.execute("create database migrated").await;
        Db::open(&cluster.url("migrated")).await.unwrap().close().await;
        cluster
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@localhost/{database}?host={}", self.directory.path().display())
    }

    /// Runs a statement on the cluster as a whole.
    async fn execute(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.url("postgres")).await.unwrap();
        sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }
}

/// Starts the server, says when it is ready, and ends it when the other side of `stopped` is gone.
fn supervise(mut server: Command, ready: &mpsc::Sender<String>, stopped: &mpsc::Receiver<()>) {
    let mut child = server.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    loop {
        let start = lines.len();
        if log.read_line(&mut lines).unwrap_or(0) == 0 {
            let _ = ready.send(lines);
            break;
        }
        if lines[start..].contains("ready to accept connections") {
            let _ = ready.send("ready".to_owned());
            break;
        }
    }
    // Read on, so that the server never waits for room in the pipe.
    let reader = std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let _ = stopped.recv();
    end(&mut child);
    let _ = reader.join();
}

/// Ends the server at once, with what it has in shared memory; nothing else of it is kept.
fn end(child: &mut Child) {
    let told = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
    if !told.is_ok_and(|status| status.success()) {
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// User and group to drop to when the tests run as root.
fn unprivileged_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    (id(&["-u"]) == Some(0)).then(|| {
        let user = id(&["-u", USER]).expect("tests that run as root need a user called postgres");
        (user, id(&["-g", USER]).expect("a user has a group"))
    })
}

/// A command as the unprivileged user that ends with the thread that starts it.
fn command(program: &Path, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=QUIT");
    if let Some((user, group)) = owner {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.arg("--").arg(program);
    command
}
