// A table's head, and the job that learns from such tables: what `tributary example job --csv` writes.

import { ALONE } from "./templates";

/** So much of a file is looked at, in bytes. */
export const HEAD_BYTES = 4 << 20;
/** With so many different numbers, or with decimals, a target is taken for a quantity, else for classes. */
const NUMBERS_MIN = 20;
/** Units of a hidden layer, and the examples for each of its parameters below which there is none. */
const HIDDEN = 32;
const EXAMPLES_PER_PARAMETER_MIN = 2;
/** Texts of one column that may be categories, as the coordinator takes them. */
const CATEGORIES_MAX = 1_000;
const MISSING = new Set(["", "na", "n/a", "nan", "null", "none", "?", "#n/a"]);
/** The comma comes last: in tables with another delimiter, it is in texts and numbers. */
const DELIMITERS = ["\t", ";", "|", ","];
const LINES_LOOKED_AT = 10;

export interface TableColumn {
  name: string;
  kind: "number" | "date" | "category";
  /** Its different texts, in the order of the alphabet, or of the numbers. */
  texts: string[];
  /** Whether a value is missing in one of the rows. */
  misses: boolean;
}

export interface TableHead {
  columns: TableColumn[];
  rows: number;
  /** Whether the file has more than was looked at. */
  isCut: boolean;
}

/** What a table's job learns: classes, or a number. */
export type Goal = "classes" | "number";

/** Reads the head of a table. Throws an error for people if there is none. */
export async function headOf(file: Blob): Promise<TableHead> {
  const isCut = file.size > HEAD_BYTES;
  const text = await file.slice(0, HEAD_BYTES).text();
  // The last line of a part is a part of a line.
  return { ...tableOf(isCut ? text.slice(0, text.lastIndexOf("\n") + 1) : text), isCut };
}

/** The columns of a table in text form. */
export function tableOf(text: string): Omit<TableHead, "isCut"> {
  const lines = recordsOf(text.replace(/^\uFEFF/, ""));
  const [first, ...rest] = lines;
  if (!first || first.length < 2) throw new Error("A table has two columns or more, and a line for each example.");
  const hasHeader = !first.some((field) => isNumber(field) || (field !== "" && isMissing(field)));
  const records = hasHeader ? rest : lines;
  if (records.length === 0) throw new Error("The table has a header alone, and no examples.");
  const odd = records.findIndex((record) => record.length !== first.length);
  if (odd >= 0)
    throw new Error(`Example ${odd + 1} has ${records[odd]!.length} fields, and the first line ${first.length}.`);
  const columns = first.map((field, at) => {
    const name = hasHeader ? field : `column_${at}`;
    return columnOf(
      name,
      records.map((record) => record[at]!),
    );
  });
  return { columns, rows: records.length };
}

function columnOf(name: string, fields: string[]): TableColumn {
  const present = fields.filter((field) => !isMissing(field));
  const texts = [...new Set(present)];
  const isNumbers = texts.every(isNumber);
  const kind = isNumbers ? "number" : texts.every(isDate) ? "date" : "category";
  texts.sort(isNumbers ? (a, b) => Number(a) - Number(b) : undefined);
  return { name, kind, texts, misses: present.length < fields.length };
}

/** What is most likely learned from a column. */
export function goalOf({ kind, texts }: TableColumn): Goal {
  const isQuantity = texts.length >= NUMBERS_MIN || texts.some((text) => !Number.isInteger(Number(text)));
  return kind === "number" && isQuantity ? "number" : "classes";
}

/** The job file for a table, as TOML. Throws an error for people where there is none. */
export function jobOf(file: string, table: TableHead, target: string, goal: Goal, population: string): string {
  const wanted = table.columns.find(({ name }) => name === target)!;
  const inputs = table.columns.filter((column) => column !== wanted);
  const many = inputs.find(({ kind, texts }) => kind === "category" && texts.length > CATEGORIES_MAX);
  if (many)
    throw new Error(`The column ${many.name} has ${many.texts.length} different texts: leave it out of the table.`);
  if (goal === "classes" && wanted.texts.length < 2)
    throw new Error(`There is only one class in ${target}, and a job learns to tell classes apart.`);
  const classes = goal === "classes" ? wanted.texts : [];
  const width = inputs.reduce((sum, { kind, texts }) => sum + (kind === "category" ? texts.length : 1), 0);
  return `name = "${jobName(file)}"
population = "${population}"

[model]
input = [${width}]
${layers(width, Math.max(classes.length, 1), table.rows)}

[model.inputs]
standardize = "federated"  # a first round fixes means and deviations over all clients
target = { name = ${quoted(target)}${classes.length ? `, classes = ${list(classes)}` : ""} }
columns = [
${inputs.map((column) => `  ${line(column)},\n`).join("")}]

[training]
epochs = 5
batch_size = ${Math.min(Math.max(Math.floor(table.rows / 20), 1), 32)}
loss = "${goal === "classes" ? "cross_entropy" : "mse"}"
optimizer = { kind = "adam", learning_rate = 0.005 }

${ALONE}`;
}

/** One hidden layer where there are examples enough to learn it, else a linear model. */
function layers(width: number, outputs: number, rows: number): string {
  const parameters = HIDDEN * (width + 1) + outputs * (HIDDEN + 1);
  if (rows < EXAMPLES_PER_PARAMETER_MIN * parameters)
    return `layers = [{ kind = "linear", out_features = ${outputs} }]  # ${rows} examples are few for a hidden layer`;
  return `layers = [
  { kind = "linear", out_features = ${HIDDEN} },
  { kind = "relu" },
  { kind = "linear", out_features = ${outputs} },
]`;
}

function line({ name, kind, texts, misses }: TableColumn): string {
  const keys = [`name = ${quoted(name)}`];
  if (kind !== "number") keys.push(`kind = "${kind}"`);
  if (kind === "category") keys.push(`categories = ${list(texts)}`);
  if (misses) keys.push('missing = "replace"');
  return `{ ${keys.join(", ")} }`;
}

/** A string of TOML: JSON's escapes are a part of its own. */
const quoted = (text: string) => JSON.stringify(text);
const list = (texts: readonly string[]) => `[${texts.map(quoted).join(", ")}]`;

/** The name of a file, as far as a job may be called so. */
function jobName(file: string): string {
  const stem = file.replace(/\.[^.]*$/, "");
  return (
    stem
      .replace(/[^A-Za-z0-9-]/g, "-")
      .slice(0, 40)
      .replace(/^-+|-+$/g, "") || "table"
  );
}

const isMissing = (field: string) => MISSING.has(field.toLowerCase());
const isNumber = (field: string) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(field);
const isDate = (field: string) => /^\d{1,4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?Z?)?$/.test(field);

/** The lines of a table, each as its fields, without blanks around them. */
function recordsOf(text: string): string[][] {
  const delimiter = delimiterOf(text);
  const records: string[][] = [];
  let record: string[] = [];
  let field = "";
  let isQuoted = false;
  const end = () => {
    record.push(field.trim());
    field = "";
  };
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]!;
    if (isQuoted && letter === '"' && text[at + 1] === '"') {
      field += '"';
      at += 1;
    } else if (letter === '"') isQuoted = !isQuoted;
    else if (isQuoted) field += letter;
    else if (letter === delimiter) end();
    else if (letter === "\n") {
      end();
      if (record.length > 1 || record[0] !== "") records.push(record);
      record = [];
    } else field += letter;
  }
  if (field !== "" || record.length > 0) {
    end();
    records.push(record);
  }
  return records;
}

/** The delimiter that each of the first lines has equally often. */
function delimiterOf(text: string): string {
  const lines = text
    .split("\n", LINES_LOOKED_AT)
    .map((line) => line.replace(/"[^"]*"/g, ""))
    .filter((line) => line.trim() !== "");
  const counts = (delimiter: string) => lines.map((line) => line.split(delimiter).length - 1);
  const isRegular = (delimiter: string) => {
    const [first = 0, ...rest] = counts(delimiter);
    return first > 0 && rest.every((count) => count === first);
  };
  return DELIMITERS.find(isRegular) ?? ",";
}
