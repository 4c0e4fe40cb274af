//! From a job's id or name to the job.

use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;

use super::args::JobArgs;
use crate::api::{Api, collect};
use crate::error::{CliError, Failure};
use crate::suggest::{NoSuchName, nearest};

#[derive(Debug, thiserror::Error)]
#[error("{count} jobs are called {name:?}, in the populations {populations}")]
pub(crate) struct AmbiguousJob {
    name: String,
    count: usize,
    /// Separated by commas.
    populations: String,
}

impl Failure for AmbiguousJob {
    fn hint(&self) -> Option<String> {
        Some("add --population NAME, or give the job's id".into())
    }
}

pub(crate) async fn find_job(api: &Api, JobArgs { job: wanted, population }: &JobArgs) -> Result<Job, CliError> {
    if let Ok(id) = wanted.parse::<JobId>() {
        return Ok(api.job(id).await?);
    }
    let jobs = collect(None, async |page| api.jobs(population.as_ref(), page).await).await?.items;
    let near = nearest(wanted, jobs.iter().map(|job| job.file.name.as_str())).map(str::to_owned);
    let mut named = jobs.into_iter().filter(|job| job.file.name.as_str() == wanted);
    let Some(first) = named.next() else {
        let place = population.as_ref().map(|population| format!(" --population {population}"));
        let list = format!("`tributary job list{}`", place.unwrap_or_default());
        return Err(NoSuchName::new("job", wanted, near.as_deref(), &list).into());
    };
    let others: Vec<Job> = named.collect();
    if others.is_empty() {
        // The list leaves progress and advice out.
        return Ok(api.job(first.head.id).await?);
    }
    let populations: Vec<String> =
        std::iter::once(&first).chain(&others).map(|job| job.file.population.to_string()).collect();
    let (count, populations) = (populations.len(), populations.join(", "));
    Err(AmbiguousJob { name: wanted.clone(), count, populations }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::operator::Progress;

    use crate::testing::{Fake, job};

    fn args(name: &str, population: Option<&str>) -> JobArgs {
        JobArgs { job: name.into(), population: population.map(|name| name.parse().unwrap()) }
    }

    #[tokio::test]
    async fn a_job_is_found_by_id_and_by_a_name_that_only_it_has() {
        let (digits, text) = (job(1, "demo", "digits"), job(2, "demo", "text"));
        let api = Fake { jobs: vec![digits.clone(), text.clone()], ..Fake::default() }.start().await;
        assert_eq!(find_job(&api, &args(&text.head.id.to_string(), None)).await.unwrap(), text);
        assert_eq!(find_job(&api, &args("digits", None)).await.unwrap(), digits);
    }

    #[tokio::test]
    async fn a_job_that_is_found_by_its_name_has_the_progress_that_its_list_leaves_out() {
        let progress = Some(Progress { accuracy: Some(0.9), ..Progress::default() });
        let digits = Job { progress, ..job(1, "demo", "digits") };
        let api = Fake { jobs: vec![digits.clone()], ..Fake::default() }.start().await;
        let listed = collect(None, async |page| api.jobs(None, page).await).await.unwrap().items;
        assert_eq!(listed[0].progress, None);
        assert_eq!(find_job(&api, &args("digits", None)).await.unwrap(), digits);
    }

    #[tokio::test]
    async fn a_name_in_two_populations_needs_the_population() {
        let (phones, silos) = (job(1, "phones", "digits"), job(2, "silos", "digits"));
        let api = Fake { jobs: vec![phones, silos.clone()], ..Fake::default() }.start().await;
        let error = find_job(&api, &args("digits", None)).await.expect_err("ambiguous");
        assert_eq!(error.to_string(), "2 jobs are called \"digits\", in the populations phones, silos");
        assert_eq!(find_job(&api, &args("digits", Some("silos"))).await.unwrap(), silos);
    }

    #[tokio::test]
    async fn a_mistyped_job_names_the_one_that_was_meant() {
        let api = Fake { jobs: vec![job(1, "demo", "slow")], ..Fake::default() }.start().await;
        let error = find_job(&api, &args("slwo", None)).await.expect_err("mistyped");
        assert_eq!(error.hint().unwrap(), "did you mean slow? `tributary job list` shows what there is");
    }

    #[tokio::test]
    async fn a_missing_job_exits_with_not_found() {
        let api = Fake::default().start().await;
        for wanted in ["digits", "job_00000000000000000000000000000000"] {
            let error = find_job(&api, &args(wanted, None)).await.expect_err("nothing there");
            assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND, "{error}");
        }
    }
}
