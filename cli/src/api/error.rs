//! Why a call of the operator API fails.

use tributary_protocol::problem::{Problem, ProblemType};

use crate::error::{COORDINATOR_UNREACHABLE, Failure, exit, scheme_hint};
use crate::format::duration_ms;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No connection, no answer in time, or a gateway without a coordinator behind it.
    #[error("cannot reach the coordinator at {server}: {cause}")]
    Unreachable { server: String, cause: String },
    /// The coordinator refused or failed, and said why.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// An answer that is not of this API.
    #[error("unexpected answer to {call}: {cause}")]
    BadAnswer {
        /// Method and path.
        call: String,
        cause: String,
    },
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl Failure for ApiError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } => exit::UNREACHABLE,
            Self::Problem(problem) => match problem.status {
                404 => exit::NOT_FOUND,
                503 => exit::UNREACHABLE,
                400..=499 => exit::REFUSED,
                _ => exit::FAILED,
            },
            Self::BadAnswer { .. } => exit::FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { cause, .. } => Some(scheme_hint(cause).unwrap_or(COORDINATOR_UNREACHABLE).into()),
            Self::BadAnswer { .. } => {
                Some("is --server a Tributary coordinator, of the same release as this program?".into())
            }
            Self::Problem(problem) => problem_hint(problem),
        }
    }

    fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { cause, .. } => scheme_hint(cause).is_none(),
            Self::Problem(problem) => matches!(problem.status, 429 | 500 | 503),
            Self::BadAnswer { .. } => false,
        }
    }
}

fn problem_hint(problem: &Problem) -> Option<String> {
    let hint = match problem.kind {
        ProblemType::Unauthorized => {
            "pass an operator token with --token or TRIBUTARY_TOKEN; a coordinator shows its first one at its first start"
        }
        ProblemType::Forbidden => {
            "an operator token with a higher role is needed: `tributary token create --operator ROLE` makes one"
        }
        ProblemType::NotFound => list_of(problem.detail.strip_prefix("there is no ").unwrap_or_default()),
        ProblemType::NameTaken => {
            "choose another name; `tributary job list` and `tributary population list` show those in use"
        }
        ProblemType::Internal => "the coordinator's log says why",
        ProblemType::TooManyRequests | ProblemType::Unavailable => match problem.retry_after_ms {
            Some(wait_ms) => return Some(format!("try again in {}", duration_ms(wait_ms))),
            None => "try again in a moment",
        },
        _ => return None,
    };
    Some(hint.into())
}

/// The command that lists what is missing, which is named as in `round 7 of job_..` or by its id.
fn list_of(missing: &str) -> &'static str {
    let lists = [
        ("population ", "`tributary population list` shows what there is"),
        ("round ", "`tributary round list JOB` shows what there is"),
        ("version ", "`tributary job versions JOB` shows what there is"),
        ("account ", "`tributary account list` shows what there is"),
        ("job_", "`tributary job list` shows what there is"),
        ("client_", "`tributary client list --population NAME` shows what there is"),
        ("token_", "`tributary token list` shows what there is"),
    ];
    let found = lists.iter().find(|(begins, _)| missing.starts_with(begins));
    found.map_or("is --server right, and of the same release as this program?", |(_, list)| list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CliError;

    fn problem(kind: ProblemType) -> CliError {
        ApiError::from(Problem::new(kind, "said so")).into()
    }

    #[test]
    fn exit_codes_tell_not_found_refused_and_unreachable_apart() {
        let unreachable = ApiError::Unreachable { server: "http://127.0.0.1:1/".into(), cause: "refused".into() };
        let cases = [
            (problem(ProblemType::NotFound), exit::NOT_FOUND),
            (problem(ProblemType::Unauthorized), exit::REFUSED),
            (problem(ProblemType::JobFileInvalid), exit::REFUSED),
            (problem(ProblemType::Unavailable), exit::UNREACHABLE),
            (unreachable.into(), exit::UNREACHABLE),
            (problem(ProblemType::Internal), exit::FAILED),
        ];
        for (error, code) in cases {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn what_is_missing_decides_which_list_is_named() {
        let cases = [
            ("there is no population phone", "population list"),
            ("there is no round 7 of job_1", "round list JOB"),
            ("there is no version 7 of job_1", "job versions JOB"),
            ("there is no job_1", "job list"),
            ("there is no token_1", "token list"),
            ("there is no client_1", "client list"),
            ("there is no /operator/v2/jobs", "is --server right"),
        ];
        for (detail, list) in cases {
            let hint = CliError::from(ApiError::from(Problem::new(ProblemType::NotFound, detail))).hint().unwrap();
            assert!(hint.contains(list), "{detail}: {hint}");
        }
    }

    #[test]
    fn a_retry_time_becomes_the_hint() {
        let busy = ApiError::from(Problem::new(ProblemType::Unavailable, "stopping").retry_after_ms(2500));
        assert_eq!(CliError::from(busy).hint().as_deref(), Some("try again in 2.5 s"));
    }
}
