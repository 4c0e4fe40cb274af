//! The exporter of a program that was built without one: it cannot be made.

use reqwest::Url;
use tracing_subscriber::layer::Identity;

use crate::error::CliError;

#[derive(Debug)]
pub(crate) enum Exporter {}

impl Exporter {
    pub(crate) fn to(endpoint: &Url, _node: Option<&str>) -> Result<Self, CliError> {
        let how = "build the program with `--features full`, or use a release";
        Err(CliError::BadSetting(format!("otlp_endpoint {endpoint}: this program was built without it; {how}")))
    }

    pub(crate) fn layer(&self) -> Identity {
        match *self {}
    }

    pub(crate) async fn finish(self) {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_refused_with_what_to_build() {
        let error = Exporter::to(&"http://h:4318".parse().unwrap(), None).unwrap_err().to_string();
        assert!(error.contains("--features full"), "{error}");
    }
}
