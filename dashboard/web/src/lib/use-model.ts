// Complete programs that use a job's model, to copy.

import type { Job } from "../api/types";
import { modelFileName } from "./download";

/** A way to use a model. */
export type Way = "python" | "cli" | "rust" | "onnx" | "torch";

type Inputs = NonNullable<Job["file"]["model"]["inputs"]>;
type Column = NonNullable<Inputs["columns"]>[number];

const LABELS: Record<Way, string> = {
  python: "Python",
  cli: "Command line",
  rust: "Rust",
  onnx: "ONNX Runtime",
  torch: "PyTorch",
};

/** The ways that this job's model can be used. A network of an app is the app's: its file has parameters alone. */
export function waysOf(job: Job): { value: Way; label: string }[] {
  const ways: Way[] = "layers" in job.file.model ? ["python", "cli", "rust", "onnx", "torch"] : ["torch"];
  const named = columnsOf(job).length > 0 ? ways : ways.filter((way) => way !== "cli");
  return named.map((value) => ({ value, label: LABELS[value] }));
}

/** A whole program. */
export function programOf(job: Job, way: Way): string {
  return { python, cli, rust, onnx, torch }[way](job).join("\n");
}

function columnsOf(job: Job): Column[] {
  return job.file.model.inputs?.columns ?? [];
}

/** Raw values of one example, where the job does not name its columns. */
function widthOf(job: Job): number {
  const shape = "layers" in job.file.model ? job.file.model.input : [];
  return shape.reduce((product, length) => product * length, 1);
}

/** A value that a column can have, as a program writes it. */
function exampleOf({ kind, categories, mean, range }: Column): string {
  if (kind === "category") return JSON.stringify(categories?.[0] ?? "");
  if (kind === "date") return '"2026-11-25"';
  return String(Number((mean ?? range?.[0] ?? 0).toPrecision(4)));
}

function python(job: Job): string[] {
  const row = columnsOf(job).map((column) => `    ${JSON.stringify(column.name)}: ${exampleOf(column)},`);
  return [
    "import tributary",
    "",
    `model = tributary.load("${modelFileName(job.file.name, job.model_version ?? 0, "f32")}")`,
    ...(row.length > 0 ? ["row = {", ...row, "}"] : [`row = [0.0] * ${widthOf(job)}`]),
    "[prediction] = model.predict([row])",
    "print(prediction.label, prediction.probabilities, prediction.numbers)",
  ];
}

function cli(job: Job): string[] {
  const file = modelFileName(job.file.name, job.model_version ?? 0, "f32");
  const header = columnsOf(job).map(({ name }) => name);
  return [
    `tributary job export ${job.file.name} --output ${file}`,
    `# new.csv has the columns ${header.join(", ")}`,
    `tributary predict --model ${file} --csv new.csv`,
  ];
}

function rust(job: Job): string[] {
  const columns = columnsOf(job);
  const value = (column: Column) => {
    const text = exampleOf(column);
    if (text.startsWith('"')) return `Value::Text(${text})`;
    return `Value::Number(${/^-?\d+$/.test(text) ? `${text}.0` : text})`;
  };
  const row = columns.map((column) => `        (${JSON.stringify(column.name)}, ${value(column)}),`);
  const predict =
    row.length > 0
      ? ["    let prediction = model.predict_row(&[", ...row, "    ])?;"]
      : [`    let prediction = model.predict(&[0.0; ${widthOf(job)}])?;`];
  return [
    `use tributary_client::predict::{UsableModel${row.length > 0 ? ", Value" : ""}};`,
    "",
    "fn main() -> Result<(), Box<dyn std::error::Error>> {",
    `    let file = std::fs::read("${modelFileName(job.file.name, job.model_version ?? 0, "f32")}")?;`,
    "    let model = UsableModel::from_bytes(&file)?;",
    ...predict,
    '    println!("{:?} {:?}", prediction.class.map(|class| model.class_name(class)), prediction.numbers);',
    "    Ok(())",
    "}",
  ];
}

function onnx(job: Job): string[] {
  const name = `${job.file.name}-v${job.model_version ?? 0}.onnx`;
  const spread = columnsOf(job).some(({ kind, encoding }) => kind === "category" && encoding !== "code");
  const shape = "layers" in job.file.model ? job.file.model.input : [];
  return [
    `# tributary job export ${job.file.name} --form onnx`,
    "import numpy, onnxruntime",
    "",
    ...(spread ? ["# Numbers as they are; a category is one input for each of its texts, 1 or 0."] : []),
    `rows = numpy.zeros([${[1, ...shape].join(", ")}], numpy.float32)`,
    `session = onnxruntime.InferenceSession("${name}")`,
    'print(session.run(["output"], {"input": rows})[0])',
  ];
}

function torch(job: Job): string[] {
  const file = modelFileName(job.file.name, job.model_version ?? 0, "f32");
  if (!("layers" in job.file.model)) {
    return [
      "from safetensors.torch import load_file",
      "",
      "# `model` is the module of your app.",
      `model.load_state_dict(load_file("${file}"))`,
    ];
  }
  return [
    "import torch, tributary",
    "from tributary.torch import module_from",
    "",
    `file = "${file}"`,
    "model = module_from(tributary.load(file).card, file).eval()",
    "# It reads prepared inputs: scaled numbers, categories as one input for each text.",
    `print(model(torch.zeros([${[1, ...job.file.model.input].join(", ")}])))`,
  ];
}
