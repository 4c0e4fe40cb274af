//! The document of the API: which answers there are, and which members they have.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::Value;

use super::members::Member;
use crate::support::{Answer, World};

/// The file of a job says what its operator wrote.
const WRITTEN_BY_OPERATORS: &str = "JobFile";

/// The document of the API.
pub(super) struct Document(Value);

/// Members that answers had.
#[derive(Default)]
pub(super) struct Members {
    pub(super) values: BTreeMap<Member, Vec<Value>>,
    /// Those that the document does not know.
    pub(super) undeclared: BTreeSet<Member>,
}

/// The schema of the answer to a call.
pub(super) fn schema(call: &Value) -> &Value {
    &call["responses"]["200"]["content"]["application/json"]["schema"]
}

impl Document {
    pub(super) async fn of(world: &World) -> Self {
        Self(Answer::to(world.request(Method::GET, "/openapi.json")).await.value())
    }

    /// What an operator may read: paths, and their calls.
    pub(super) fn reads(&self) -> Vec<(&str, &Value)> {
        let reads = self.0["paths"].as_object().unwrap().iter().map(|(path, item)| (path.as_str(), &item["get"]));
        // The feed goes on for ever and tells the events of `/events`; the others are for browsers that sign in.
        let is_other = |path: &str| ["/feed", "/oidc/login", "/oidc/callback"].iter().any(|end| path.ends_with(end));
        reads.filter(|(path, get)| get.is_object() && path.starts_with("/operator/v1") && !is_other(path)).collect()
    }

    /// The schemas that a value of this schema has together or one of, each with the name of its owner.
    fn parts<'a>(&'a self, owner: &'a str, schema: &'a Value, parts: &mut Vec<(&'a str, &'a Value)>) {
        if let Some(path) = schema["$ref"].as_str() {
            let name = path.rsplit('/').next().unwrap();
            return self.parts(name, &self.0["components"]["schemas"][name], parts);
        }
        parts.push((owner, schema));
        for kind in ["allOf", "oneOf", "anyOf"] {
            for part in schema[kind].as_array().into_iter().flatten() {
                self.parts(owner, part, parts);
            }
        }
    }

    /// Notes each member that values of this schema may have.
    pub(super) fn declared(&self, owner: &str, schema: &Value, found: &mut BTreeSet<Member>) {
        let mut parts = Vec::new();
        self.parts(owner, schema, &mut parts);
        for (owner, part) in parts.into_iter().filter(|(owner, _)| *owner != WRITTEN_BY_OPERATORS) {
            for (name, schema) in part["properties"].as_object().into_iter().flatten() {
                // A schema without a name contains no other one of its kind.
                if found.insert((owner.to_owned(), name.clone())) || owner.is_empty() {
                    self.declared(owner, schema, found);
                }
            }
            for elements in ["items", "additionalProperties"] {
                if part[elements].is_object() {
                    self.declared(owner, &part[elements], found);
                }
            }
        }
    }

    /// Notes each member of a value, with what it is.
    pub(super) fn walk(&self, owner: &str, schema: &Value, value: &Value, found: &mut Members) {
        let mut parts = Vec::new();
        self.parts(owner, schema, &mut parts);
        if parts.iter().any(|(owner, _)| *owner == WRITTEN_BY_OPERATORS) {
            return;
        }
        let of_elements = |kind: &'static str| parts.iter().filter(move |(_, part)| part[kind].is_object());
        match value {
            Value::Array(items) => {
                for (owner, part) in of_elements("items") {
                    items.iter().for_each(|item| self.walk(owner, &part["items"], item, found));
                }
            }
            Value::Object(object) => {
                for (name, value) in object {
                    let declared: Vec<_> =
                        parts.iter().filter(|(_, part)| !part["properties"][name].is_null()).collect();
                    for (owner, part) in &declared {
                        let member = ((*owner).to_owned(), name.clone());
                        found.values.entry(member).or_default().push(value.clone());
                        self.walk(owner, &part["properties"][name], value, found);
                    }
                    for (owner, part) in of_elements("additionalProperties") {
                        self.walk(owner, &part["additionalProperties"], value, found);
                    }
                    if declared.is_empty() && of_elements("additionalProperties").next().is_none() {
                        found.undeclared.insert((owner.to_owned(), name.clone()));
                    }
                }
            }
            _ => {}
        }
    }
}
