//! Whether examples fit the running jobs of a population.

use tributary_protocol::device::OpenJob;
use tributary_protocol::plan::Loss;

use crate::error::Failure;

/// What jobs require of examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Of one input.
    pub(super) input: Vec<usize>,
    /// The largest class and one; `None`: the targets are numbers.
    pub(super) classes: Option<usize>,
}

/// No running job can use the examples.
#[derive(Debug, thiserror::Error)]
#[error("these examples fit no running job: {}", .0.join("; "))]
pub(super) struct FitsNoJob(Vec<String>);

impl Failure for FitsNoJob {
    fn hint(&self) -> Option<String> {
        Some("`tributary example job --csv FILE` prints a job file that fits a table".into())
    }
}

/// Why some of the jobs cannot use the examples: a sentence for each. An error if there are jobs and none can.
pub(super) fn misfits(jobs: &[OpenJob], shape: &Shape) -> Result<Vec<String>, FitsNoJob> {
    let jobs: Vec<&OpenJob> = jobs.iter().filter(|job| job.analysis.is_none()).collect();
    let why = |job: &&OpenJob| misfit(job, shape).map(|why| format!("{}: {why}", job.name));
    let misfits: Vec<String> = jobs.iter().filter_map(why).collect();
    if misfits.len() == jobs.len() && !jobs.is_empty() { Err(FitsNoJob(misfits)) } else { Ok(misfits) }
}

fn misfit(job: &OpenJob, shape: &Shape) -> Option<String> {
    let (Some(input), Some(output)) = (&job.input, &job.output) else {
        return Some("its network is part of an app, and this program does not have it".into());
    };
    let values = shape.input.iter().product::<usize>();
    if *input != shape.input && *input != [values] {
        let (wanted, held) = (numbers(input), numbers(&shape.input));
        return Some(format!("its network reads {wanted}, and an example has {held}"));
    }
    let outputs = output.last().copied().unwrap_or(0);
    match (job.loss, shape.classes) {
        (Loss::CrossEntropy, Some(classes)) if classes > outputs => {
            Some(format!("its network knows {outputs} classes, and the examples have {classes}"))
        }
        (Loss::CrossEntropy, None) => Some("it learns classes, and the targets are numbers".into()),
        (Loss::Mse, Some(_)) => Some("it learns numbers, and the targets are classes (--regression)".into()),
        _ => None,
    }
}

/// `64 numbers`, `1 x 8 x 8 numbers`.
fn numbers(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("{} {}", lengths.join(" x "), if shape == [1] { "number" } else { "numbers" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, input: &[usize], output: usize, loss: Loss) -> OpenJob {
        OpenJob {
            name: name.parse().unwrap(),
            data: None,
            input: Some(input.into()),
            output: Some(vec![output]),
            loss,
            inputs: None,
            analysis: None,
        }
    }

    fn refused(job: OpenJob, shape: &Shape) -> String {
        misfits(&[job], shape).expect_err("it does not fit").to_string()
    }

    #[test]
    fn examples_that_no_job_can_use_are_refused_with_the_reason() {
        let pairs = Shape { input: vec![2], classes: Some(3) };
        let digits = job("digits", &[64], 10, Loss::CrossEntropy);
        let text =
            "these examples fit no running job: digits: its network reads 64 numbers, and an example has 2 numbers";
        assert_eq!(refused(digits.clone(), &pairs), text);
        assert!(refused(job("two", &[2], 2, Loss::CrossEntropy), &pairs).contains("knows 2 classes"));
        assert!(refused(job("price", &[2], 1, Loss::Mse), &pairs).contains("(--regression)"));
        let fits = job("three", &[2], 3, Loss::CrossEntropy);
        assert_eq!(misfits(&[fits, digits], &pairs).unwrap().len(), 1);
        assert!(misfits(&[], &pairs).unwrap().is_empty());
    }

    #[test]
    fn an_image_fits_a_network_that_reads_rows() {
        let image = Shape { input: vec![1, 8, 8], classes: Some(10) };
        for input in [vec![64], vec![1, 8, 8]] {
            assert!(misfits(&[job("digits", &input, 10, Loss::CrossEntropy)], &image).is_ok());
        }
        assert!(misfits(&[job("digits", &[8, 8], 10, Loss::CrossEntropy)], &image).is_err());
    }
}
