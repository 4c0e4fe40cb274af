//! One exchange of each call, for the OpenAPI document. `scripts/examples` records them while the tests run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

static EXAMPLES: LazyLock<BTreeMap<String, Example>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("the tests have read it"));

/// The JSON of a request and of its successes by their status, where they have some.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Example {
    pub(super) request: Option<Value>,
    #[serde(default)]
    pub(super) answers: BTreeMap<String, Value>,
}

/// The exchange of a call, by its operation id.
pub(super) fn of(id: &str) -> Example {
    EXAMPLES.get(id).cloned().unwrap_or_default()
}
