// Settings of job files by their keys, and those that differ among jobs.

/** Settings that always differ or say nothing about results. */
const LEFT_OUT = ["name"];

/** The values of a job file by their keys: `round.deadline_ms`. A list is one value. */
export function settingsOf(file: unknown): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (prefix: string, value: unknown) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      for (const [name, member] of Object.entries(value)) walk(prefix ? `${prefix}.${name}` : name, member);
    } else if (value !== undefined) {
      found.set(prefix, typeof value === "string" ? value : JSON.stringify(value));
    }
  };
  walk("", file);
  return found;
}

export interface Difference {
  key: string;
  /** The value in each job, in the order of the jobs; undefined where it is not set. */
  values: (string | undefined)[];
}

/** The settings that are not the same in all files, by key. */
export function differences(files: readonly unknown[]): Difference[] {
  const all = files.map(settingsOf);
  const keys = [...new Set(all.flatMap((settings) => [...settings.keys()]))].toSorted();
  return keys
    .filter((key) => !LEFT_OUT.includes(key))
    .map((key) => ({ key, values: all.map((settings) => settings.get(key)) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
}

/** The optimizer, codec and amounts of a job file in few words, for the head of a job. */
export function hyperparameters(job: object): { name: string; value: string }[] {
  const file = job as Partial<
    Record<"training" | "update" | "aggregation" | "secure_aggregation", Record<string, unknown>>
  >;
  const table = (value: unknown) => (value ?? {}) as Record<string, unknown>;
  const optimizer = table(file.training?.optimizer);
  const [combine, server] = [table(file.aggregation?.combine), table(file.aggregation?.optimizer)];
  const pairs: [string, unknown][] = [
    ["optimizer", optimizer.kind],
    ["learning rate", optimizer.learning_rate],
    ["momentum", optimizer.momentum],
    ["weight decay", optimizer.weight_decay],
    ["epochs", file.training?.epochs],
    ["steps", file.training?.steps],
    ["batch", file.training?.batch_size],
    // Masked integers are a codec of their own.
    ["codec", file.secure_aggregation ? "masked" : codecName(file.update?.codec)],
    ["rule", combine.kind],
    ["server optimizer", server.kind === "sgd" ? undefined : server.kind],
    ["server rate", server.learning_rate === 1 ? undefined : server.learning_rate],
  ];
  return pairs
    .filter(([, value]) => value !== undefined && value !== null && value !== 0)
    .map(([name, value]) => ({ name, value: String(value) }));
}

/** A codec is a word, or an object with the word as `name`. */
export function codecName(codec: unknown): string | undefined {
  if (typeof codec === "string") return codec;
  if (codec === null || typeof codec !== "object") return undefined;
  const { name } = codec as { name?: unknown };
  return typeof name === "string" ? name : undefined;
}
