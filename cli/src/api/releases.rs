//! Releases.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::id::{Name, ReleaseId};
use tributary_protocol::operator::{CreateRelease, Page, Release};
use tributary_protocol::release::Share;

use super::{Api, ApiError, CALL_TIMEOUT, LONG_TIMEOUT};

impl Api {
    /// `GET /operator/v1/releases?population=`
    pub async fn releases(&self, population: &Name) -> Result<Page<Release>, ApiError> {
        self.get(&["releases"], &[("population", population.to_string())]).await
    }

    /// `POST /operator/v1/releases`. The coordinator reads and writes the model meanwhile.
    pub async fn create_release(&self, wanted: &CreateRelease) -> Result<Release, ApiError> {
        self.send_json(self.call(Method::POST, &["releases"], &[]).json(wanted).timeout(LONG_TIMEOUT)).await
    }

    /// `PATCH /operator/v1/releases/{id}`
    pub async fn widen_release(&self, id: ReleaseId, share: Share) -> Result<Release, ApiError> {
        let call = self.call(Method::PATCH, &["releases", &id.to_string()], &[]).json(&json!({ "share": share }));
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }

    /// `POST /operator/v1/releases/{id}/withdraw`
    pub async fn withdraw_release(&self, id: ReleaseId) -> Result<Release, ApiError> {
        let call = self.call(Method::POST, &["releases", &id.to_string(), "withdraw"], &[]);
        self.send_json(call.timeout(CALL_TIMEOUT)).await
    }
}
