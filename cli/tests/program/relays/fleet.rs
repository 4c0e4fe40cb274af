//! Clients behind coordinators, whose updates depend on the client and the base version alone.

use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::problem::{Problem, ProblemType};
use tributary_protocol::seed::Seed;

use super::CLIENTS;
use crate::support::device::Device;

/// The update of a client to a base version, and its weight.
pub(super) fn update(client: usize, version: u32, values: usize) -> (Vec<f32>, u32) {
    let mut stream = Seed(3).derive("client", client as u64).derive("version", version.into()).stream();
    let delta = (0..values).map(|_| stream.uniform(-0.5, 0.5)).collect();
    (delta, 1 + (client as u32 * 37 + version) % 90)
}

/// The weight of a version of all clients' updates to `version`.
pub(super) fn weight_of_all(version: u32) -> u64 {
    (0..CLIENTS).map(|client| u64::from(update(client, version, 0).1)).sum()
}

/// Client and base version of each update that was acknowledged.
pub(super) type Acknowledged = Vec<(usize, u32)>;

/// Enrolled clients.
pub(super) struct Fleet {
    devices: Vec<Device>,
}

impl Fleet {
    /// Enrols as many clients at each coordinator, which is given with an enrolment token.
    pub(super) async fn enrol(coordinators: &[(String, String)]) -> Self {
        let each = CLIENTS / coordinators.len();
        let mut devices = Vec::new();
        for client in 0..CLIENTS {
            let (url, token) = &coordinators[client / each];
            devices.push(Device::enrol(url, token).await);
        }
        Self { devices }
    }

    pub(super) fn device(&self, client: usize) -> &Device {
        &self.devices[client]
    }

    /// The work of each client, once each has some.
    pub(super) async fn work(&self) -> Vec<Assignment> {
        futures_util::future::join_all(self.devices.iter().map(Device::work)).await
    }

    /// Plays all clients until `ended`.
    pub(super) async fn play_until(&self, ended: impl Future<Output = ()>) -> Acknowledged {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let mut sessions = JoinSet::new();
        for (client, device) in self.devices.iter().cloned().enumerate() {
            let acknowledged = Arc::clone(&acknowledged);
            sessions.spawn(async move {
                loop {
                    let work = device.work().await;
                    match contribute(client, &device, &work).await {
                        Ok(()) => acknowledged.lock().unwrap().push((client, work.model_version)),
                        // The round ended meanwhile.
                        Err(problem) if problem.kind == ProblemType::AssignmentClosed => {}
                        Err(problem) => panic!("client {client}: {problem:?}"),
                    }
                }
            });
        }
        tokio::select! {
            () = ended => {}
            Some(Err(failed)) = sessions.join_next() => std::panic::resume_unwind(failed.into_panic()),
        }
        sessions.shutdown().await;
        let mut acknowledged = acknowledged.lock().unwrap().clone();
        acknowledged.sort_unstable();
        acknowledged
    }
}

/// Downloads the model of an assignment and sends the client's update to it.
pub(super) async fn contribute(client: usize, device: &Device, work: &Assignment) -> Result<(), Box<Problem>> {
    let model = device.model(work).await?;
    assert_eq!(Sha256Hash::of(&model), work.model_sha256, "client {client}");
    let values = work.plan.model.parts().unwrap().shared().total();
    let (delta, weight) = update(client, work.model_version, values);
    device.put_update(work, &delta, weight).await
}
