//! `tributary serve`: the coordinator as a daemon.

mod log;
mod oidc;
mod settings;

use clap::{Arg, Args};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{Name, Secret};
use tributary_server::Coordinator;

use crate::error::CliError;
use crate::listen::listen;
use crate::output::Output;

pub(crate) use settings::ServeArgs;

/// The first line of the output. Programs rely on the names of its members.
#[derive(Serialize)]
struct Serving {
    event: &'static str,
    url: String,
    node: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_token: Option<Secret>,
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) async fn run(args: ServeArgs, output: &Output) -> Result<(), CliError> {
    let settings = args.resolve()?;
    let exporter = log::start(&settings)?;
    let (listener, address) = listen(settings.listen).await?;
    let coordinator = Coordinator::open(&settings.coordinator).await?;
    let serving = Serving {
        event: "serving",
        url: format!("http://{address}/"),
        node: coordinator.node().clone(),
        operator_token: coordinator.first_operator_token().cloned(),
    };
    output.object(&serving, || text(&serving))?;

    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        stop_signal().await;
        tracing::info!("stopping: open rounds continue at the next start");
        stop.cancel();
    });
    let served = coordinator.serve(listener, shutdown).await;
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    Ok(served?)
}

/// The environment variables that `serve` reads.
pub(crate) fn variables() -> Vec<String> {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let names = command.get_arguments().filter_map(Arg::get_env);
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn text(serving: &Serving) -> String {
    let url = format!("{} as {}", serving.url, serving.node);
    match &serving.operator_token {
        None => format!("serving at {url}"),
        Some(token) => format!(
            "serving at {url}\n\nThis is the first start. The operator token, which is not shown again:\n\n  {}\n\n\
             next: export TRIBUTARY_TOKEN=.. and `tributary population create NAME`",
            token.expose()
        ),
    }
}

/// Returns at Ctrl-C and, on Unix, at SIGTERM.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
