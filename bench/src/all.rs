//! Every figure of the benchmark page that has a target: each benchmark in a separate process, one after the other.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::error::BenchError;
use crate::process::whole_process;
use tributary::error::CliError;
use tributary::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The folder of MNIST's four IDX files, for the figures of training [default: they are left out].
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// A figure of a benchmark.
struct Figure {
    what: &'static str,
    unit: &'static str,
    /// Most that it should be. None where other figures explain it, or where it is compared with another program
    /// (`scripts/compare`).
    target: Option<f64>,
    /// A JSON pointer into the object that the benchmark prints.
    place: &'static str,
    /// The unit of the figure from that of the benchmark.
    convert: fn(f64) -> f64,
}

/// A run of a benchmark.
struct Run {
    arguments: &'static [&'static str],
    /// Whether it takes `--data-dir`.
    needs_data: bool,
    figures: &'static [Figure],
}

const fn figure(what: &'static str, unit: &'static str, target: Option<f64>, place: &'static str) -> Figure {
    Figure { what, unit, target, place, convert: |value| value }
}

/// Nanoseconds per f32 value from gigabytes of f32 per second.
const fn per_value(what: &'static str, most_ns: f64, place: &'static str) -> Figure {
    Figure { convert: |gb_per_s| 4.0 / gb_per_s, ..figure(what, "ns", Some(most_ns), place) }
}

/// The targets are those of docs/benchmarks.md.
const RUNS: &[Run] = &[
    Run {
        arguments: &["round", "--clients", "8", "--params", "1000"],
        needs_data: false,
        figures: &[figure("a round of 8 clients without training (p50)", "ms", Some(10.0), "/round_ms_p50")],
    },
    Run {
        arguments: &["load", "--held", "5000", "--checkins", "20000", "--updates", "3000"],
        needs_data: false,
        figures: &[
            figure("enrolments", "per s", None, "/enrolments_per_s"),
            figure("check-ins", "per s", None, "/checkins_per_s"),
            figure("a check-in (p99)", "ms", None, "/p99_ms"),
            figure("updates of 1,000 parameters", "per s", None, "/updates_per_s"),
            figure("memory per held client", "kB", Some(16.0), "/kb_per_held_client"),
        ],
    },
    Run {
        arguments: &["recovery"],
        needs_data: false,
        figures: &[
            figure("a killed coordinator serves again", "s", None, "/serving_s"),
            figure("and its round has 100 updates of 1,663,370 parameters again", "s", None, "/recovery_s"),
        ],
    },
    Run {
        arguments: &["aggregate", "--clients", "2", "--params", "10000000"],
        needs_data: false,
        figures: &[
            figure("processor time of a round, 2 x 10 M", "s", Some(0.35), "/server_cpu_s_per_round"),
            figure("peak memory, 2 x 10 M", "MB", Some(138.0), "/server_peak_rss_mb"),
        ],
    },
    Run {
        arguments: &["aggregate", "--clients", "8", "--params", "1663370"],
        needs_data: false,
        figures: &[figure("processor time of a round, 8 x 1.66 M", "s", Some(0.2), "/server_cpu_s_per_round")],
    },
    Run {
        arguments: &["aggregate", "--clients", "32", "--params", "10000000", "--rounds", "3"],
        needs_data: false,
        figures: &[figure("peak memory, 32 x 10 M", "MB", Some(150.0), "/server_peak_rss_mb")],
    },
    Run {
        arguments: &["codec", "--codec", "ternary"],
        needs_data: false,
        figures: &[
            per_value("ternary: decoding a value", 10.0, "/decode_gb_per_s"),
            per_value("ternary: encoding a value", 15.0, "/encode_gb_per_s"),
        ],
    },
    Run {
        arguments: &["codec", "--codec", "qsgd"],
        needs_data: false,
        figures: &[
            per_value("qsgd: decoding a value", 10.0, "/decode_gb_per_s"),
            per_value("qsgd: encoding a value", 15.0, "/encode_gb_per_s"),
        ],
    },
    Run {
        arguments: &["train", "--model", "2nn", "--batch", "10", "--threads", "1"],
        needs_data: true,
        figures: &[
            figure("2NN, batches of 10, one thread: training", "examples/s", None, "/samples_per_s"),
            figure("the same: evaluation", "examples/s", None, "/evaluated_per_s"),
        ],
    },
    Run {
        arguments: &["train", "--model", "cnn", "--batch", "10", "--threads", "1"],
        needs_data: true,
        figures: &[
            figure("CNN, batches of 10, one thread: training", "examples/s", None, "/samples_per_s"),
            figure("the same: evaluation", "examples/s", None, "/evaluated_per_s"),
        ],
    },
    Run {
        arguments: &["predict", "--model", "mlp"],
        needs_data: false,
        figures: &[figure("a prediction of the 2NN (p50)", "us", Some(60.0), "/us_p50")],
    },
];

/// A figure that was measured.
#[derive(Debug, Serialize)]
struct Measured {
    figure: &'static str,
    value: f64,
    unit: &'static str,
    /// Most that it should be; none where there is no target.
    limit: Option<f64>,
    /// The value divided by the limit: at most 1 meets it.
    ratio: Option<f64>,
    /// How to measure it alone.
    command: String,
}

pub(crate) async fn run(args: &AllArgs, output: &Output) -> Result<(), CliError> {
    for run in RUNS.iter().filter(|run| !run.needs_data || args.data_dir.is_some()) {
        let mut arguments = vec!["--json".to_owned()];
        arguments.extend(run.arguments.iter().map(|argument| (*argument).to_owned()));
        if let Some(folder) = args.data_dir.as_ref().filter(|_| run.needs_data) {
            arguments.extend(["--data-dir".to_owned(), folder.display().to_string()]);
        }
        let command = format!("tributary-bench {} --json", arguments[1..].join(" "));
        output.note(&command);
        let lines = whole_process(arguments).await?;
        // The data of the first line are the usual ones, where a benchmark prints several.
        let printed: Option<Value> = lines.lines().next().and_then(|line| serde_json::from_str(line).ok());
        for figure in run.figures {
            let value = printed.as_ref().and_then(|printed| printed.pointer(figure.place)).and_then(Value::as_f64);
            let value = value.ok_or_else(|| BenchError::Figure { command: command.clone(), place: figure.place })?;
            let measured = measured(figure, value, &command);
            output.object(&measured, || text(&measured))?;
        }
    }
    Ok(())
}

fn measured(figure: &Figure, printed: f64, command: &str) -> Measured {
    let value = (figure.convert)(printed);
    let ratio = figure.target.map(|limit| value / limit);
    Measured { figure: figure.what, value, unit: figure.unit, limit: figure.target, ratio, command: command.to_owned() }
}

fn text(measured: &Measured) -> String {
    let Measured { figure, value, unit, limit, ratio, .. } = measured;
    let mut line = format!("{figure}: {value:.3} {unit}");
    if let (Some(limit), Some(ratio)) = (limit, ratio) {
        write!(line, " (target: at most {limit} {unit}; {ratio:.2} of it)").expect("strings grow");
    }
    line
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::BenchCommand;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: BenchCommand,
    }

    #[test]
    fn every_benchmark_has_the_options_that_are_used() {
        for run in RUNS {
            let data = if run.needs_data { &["--data-dir", "mnist-data"][..] } else { &[] };
            let line = ["tributary-bench"].into_iter().chain(run.arguments.iter().copied()).chain(data.iter().copied());
            Line::try_parse_from(line).unwrap();
        }
    }

    #[test]
    fn a_figure_is_divided_by_its_target() {
        let decode = per_value("decoding a value", 10.0, "/decode_gb_per_s");
        let measured = measured(&decode, 0.8, "tributary-bench codec");
        assert_eq!((measured.value, measured.limit, measured.ratio), (5.0, Some(10.0), Some(0.5)));
        assert_eq!(text(&measured), "decoding a value: 5.000 ns (target: at most 10 ns; 0.50 of it)");
    }
}
