// Job files to begin with.

export interface Template {
  name: string;
  about: string;
  text: string;
}

const COMMON = `
[round]
updates_goal = 10          # closes the round early
updates_min = 5            # fewer at the deadline abandon it
over_selection = 1.3       # 13 clients are selected
deadline_ms = 600_000

[evaluation]               # left out: nothing is measured
every_rounds = 1

[stop]
rounds = 30
`;

/** Rounds that one client completes. */
export const ALONE = `[round]
updates_goal = 1           # one update closes the round
updates_min = 1
over_selection = 1.0       # no spare clients
deadline_ms = 60_000

[evaluation]               # any client measures the new model

[stop]
rounds = 10
`;

/** A network over 64 numbers; `model` ends its section. */
const digits = (name: string, model: string) => `name = "${name}"
population = "POPULATION"

[model]
input = [64]
layers = [
  { kind = "linear", out_features = 64 },
  { kind = "relu" },
  { kind = "linear", out_features = 10 },
]${model}

[training]
epochs = 5
batch_size = 10
loss = "cross_entropy"
optimizer = { kind = "sgd", learning_rate = 0.2 }
${COMMON}`;

export const TEMPLATES: readonly Template[] = [
  {
    name: "First",
    about: "handwritten digits, with one client or more",
    text: `name = "first"
population = "POPULATION"

[model]
input = [64]               # 8x8 pixels, one number each
layers = [
  { kind = "linear", out_features = 64 },
  { kind = "relu" },
  { kind = "linear", out_features = 10 },
]

[training]
epochs = 5
batch_size = 10
optimizer = { kind = "sgd", learning_rate = 0.2 }

${ALONE}`,
  },
  {
    name: "Table",
    about: "a small network over rows of numbers",
    text: digits("digits", ""),
  },
  {
    name: "Personal",
    about: "as Table, and each client has a last layer of its own",
    text: digits("digits-personal", `\npersonal = ["layers.2.*"]  # these parameters never leave a device`),
  },
  {
    name: "Images",
    about: "a convolutional network over grey images",
    text: `name = "images"
population = "POPULATION"

[model]
input = [1, 28, 28]        # channels, height, width
layers = [
  { kind = "conv2d", out_channels = 16, kernel_size = 5 },
  { kind = "relu" },
  { kind = "max_pool2d", kernel_size = 2 },
  { kind = "conv2d", out_channels = 32, kernel_size = 5 },
  { kind = "relu" },
  { kind = "max_pool2d", kernel_size = 2 },
  { kind = "flatten" },
  { kind = "linear", out_features = 128 },
  { kind = "relu" },
  { kind = "linear", out_features = 10 },
]

[training]
epochs = 1
batch_size = 20
loss = "cross_entropy"
optimizer = { kind = "sgd", learning_rate = 0.1 }
${COMMON}`,
  },
  {
    name: "Own network",
    about: "an app that brings its own network and trainer",
    text: `name = "own-network"
population = "POPULATION"
initial_model = "upload"   # version 0 comes from you

[model]
parameters = [
  { name = "hidden.weight", shape = [64, 32] },
  { name = "hidden.bias", shape = [64] },
]

[training]
steps = 100
batch_size = 32
optimizer = { kind = "adam", learning_rate = 0.001 }
${COMMON}`,
  },
];

/** The template's text for a population, with a name that is not taken. */
export function fill(template: Template, population: string, taken: ReadonlySet<string>): string {
  return withName(template.text.replace("POPULATION", population), taken);
}

/** The first `name = ".."` with a number added while it is taken. */
export function withName(text: string, taken: ReadonlySet<string>): string {
  const found = /^name\s*=\s*"([^"]*)"/m.exec(text);
  const name = found?.[1];
  if (!found || name === undefined || !taken.has(name)) return text;
  const stem = name.replace(/-\d+$/, "");
  let number = 2;
  while (taken.has(`${stem}-${number}`)) number += 1;
  return (
    text.slice(0, found.index) +
    found[0].replace(`"${name}"`, `"${stem}-${number}"`) +
    text.slice(found.index + found[0].length)
  );
}

/** The line, from 1, that an error message of the TOML parser names. */
export function errorLine(detail: string): number | undefined {
  const found = /\bline (\d+)/i.exec(detail);
  return found ? Number(found[1]) : undefined;
}
