//! `tributary serve`: the coordinator as a daemon.

mod announce;
mod devices;
mod log;
mod oidc;
mod settings;

use clap::{Arg, Args};
use tokio_util::sync::CancellationToken;
use tributary_server::db::Served;
use tributary_server::net::{Listeners, raise_open_files};
use tributary_server::{Coordinator, RelaySettings};

use crate::error::CliError;
use crate::listen::listen;
use crate::output::Output;

use announce::{Addresses, Serving};

pub use settings::ServeArgs;

/// Serves until Ctrl-C or SIGTERM; with a parent, as its relay.
pub async fn run(args: ServeArgs, relay: Option<RelaySettings>, output: &Output) -> Result<(), CliError> {
    let mut settings = args.resolve()?;
    settings.coordinator.relay = relay;
    let exporter = log::start(&settings)?;
    raise_open_files();
    let (main, address) = listen(settings.listen).await?;
    let (operators, operators_address) = match settings.listen_operators {
        Some(address) => listen(address).await.map(|(listener, address)| (Some(listener), address))?,
        None => (None, address),
    };
    if operators.is_some() && settings.coordinator.clients_url.is_none() {
        let scheme = if settings.coordinator.tls.is_some() { "https" } else { "http" };
        settings.coordinator.clients_url = Some(format!("{scheme}://{address}"));
    }
    // Held until the coordinator has stopped.
    let _claim = Served::claim(settings.coordinator.database.expose(), &address.to_string())?;
    let coordinator = Coordinator::open(&settings.coordinator).await?;
    let addresses = Addresses { main: address, operators: operators_address };
    let serving = Serving::new(&coordinator, addresses, &settings.coordinator);
    output.object(&serving, || serving.text())?;

    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        stop_signal().await;
        tracing::info!("stopping: open rounds continue at the next start");
        stop.cancel();
    });
    let served = coordinator.serve(Listeners { main, operators }, shutdown).await;
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    Ok(served?)
}

/// The environment variables that `serve` reads.
pub fn variables() -> Vec<String> {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let names = command.get_arguments().filter_map(Arg::get_env);
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Returns at Ctrl-C and, on Unix, at SIGTERM.
pub async fn stop_signal() {
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
