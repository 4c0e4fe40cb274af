import { describe, expect, it } from "vitest";
import type { CurvePoint, JobOverview } from "../src/api/types";
import { marksOf, overlaid } from "../src/lib/curve";
import { passes, rank } from "../src/lib/jobs";
import { logTicks } from "../src/lib/scale";
import { codecName, differences, hyperparameters, settingsOf } from "../src/lib/settings";
import { beginsWithLargest, sorted } from "../src/lib/sort";

function entry(name: string, state: string, more: Record<string, unknown> = {}): JobOverview {
  const job = { id: `job_${name}`, name, population: "phones", state, ...more };
  return { job, health: [{ severity: "ok", kind: "fine", text: "" }] } as unknown as JobOverview;
}

function point(round: number, more: Partial<CurvePoint>): CurvePoint {
  const base = { round, at_ms: 0, wall_ms: round * 100, clients_ms: 0, bytes_up: round * 10, bytes_down: 0 };
  return { ...base, reported: 1, cohort: 1, abandoned: false, ...more };
}

describe("the job table", () => {
  it("sorts by a value, what has none last, and keeps equal rows in their order", () => {
    const rows = [{ v: 2 }, { v: undefined }, { v: 10 }, { v: 2, second: true }];
    expect(sorted(rows, (row) => row.v, true).map((row) => row.v)).toEqual([10, 2, 2, undefined]);
    expect(sorted(rows, (row) => row.v, false)).toEqual([rows[0], rows[3], rows[2], rows[1]]);
    expect(sorted([{ v: "b" }, { v: "a" }], (row) => row.v, false).map((row) => row.v)).toEqual(["a", "b"]);
  });

  it("begins with the largest number and the worst share, and with A", () => {
    const columns = [{ number: true }, { worstFirst: true }, {}];
    expect(columns.map(beginsWithLargest)).toEqual([true, true, false]);
  });

  it("finds jobs by words in any of their texts, and by state", () => {
    const digits = entry("digits", "running", { tags: ["paper"], notes: "Seed 7" });
    const text = entry("text", "stopped");
    const found = (filter: string, state = "") =>
      [digits, text].filter((job) => passes(job, { text: filter, state })).map(({ job }) => job.name);
    expect(found("")).toEqual(["digits", "text"]);
    expect(found("PAPER seed")).toEqual(["digits"]);
    expect(found("phones")).toEqual(["digits", "text"]);
    expect(found("phones nothing")).toEqual([]);
    expect(found("", "open")).toEqual(["digits"]);
    expect(found("", "ended")).toEqual(["text"]);
    expect(found("", "paused")).toEqual([]);
  });

  it("has jobs in trouble first", () => {
    const bad = { ...entry("bad", "running"), health: [{ severity: "trouble", kind: "no_driver", text: "" }] };
    const warned = (state: string) =>
      ({ ...entry("w", state), health: [{ severity: "warning", kind: "not_measured", text: "" }] }) as JobOverview;
    const order = [bad as JobOverview, warned("running"), warned("completed"), entry("fine", "running")];
    expect(order.map(rank)).toEqual([0, 1, 2, 3]);
  });
});

describe("settings", () => {
  it("are flat, and those that differ are listed with their values", () => {
    const one = { name: "a", training: { epochs: 1, optimizer: { learning_rate: 0.1 } }, model: { layers: [1, 2] } };
    const two = {
      name: "b",
      training: { epochs: 1, optimizer: { learning_rate: 0.2, momentum: 0.9 } },
      model: one.model,
    };
    expect(settingsOf(one).get("training.optimizer.learning_rate")).toBe("0.1");
    expect(settingsOf(one).get("model.layers")).toBe("[1,2]");
    expect(differences([one, two])).toEqual([
      { key: "training.optimizer.learning_rate", values: ["0.1", "0.2"] },
      { key: "training.optimizer.momentum", values: [undefined, "0.9"] },
    ]);
    expect(differences([one, one])).toEqual([]);
  });

  it("name the hyperparameters that are set", () => {
    const file = {
      training: { epochs: 5, optimizer: { kind: "sgd", learning_rate: 0.2, momentum: 0 } },
      update: { codec: { name: "qsgd", levels: 4 } },
      aggregation: { combine: { kind: "median" }, optimizer: { kind: "adam", learning_rate: 0.1 } },
    };
    const server = ["rule median", "server optimizer adam", "server rate 0.1"];
    const told = hyperparameters(file).map(({ name, value }) => `${name} ${value}`);
    expect(told).toEqual(["optimizer sgd", "learning rate 0.2", "epochs 5", "codec qsgd", ...server]);
    expect(codecName("int8")).toBe("int8");
    expect(codecName(undefined)).toBeUndefined();
  });
});

describe("curves over each other", () => {
  it("share one axis, with gaps where a job has no point", () => {
    const one = [point(1, { accuracy: 0.5 }), point(2, { accuracy: 0.6 })];
    const two = [point(2, { accuracy: 0.7 }), point(3, { abandoned: true })];
    expect(overlaid([one, two], "round", ["accuracy"])).toEqual([
      [1, 2],
      [0.5, 0.6],
      [null, 0.7],
    ]);
    expect(overlaid([one, two], "bytes", ["accuracy"])[0]).toEqual([10, 20]);
  });

  it("have the loss of the evaluation, or else of training", () => {
    const points = [point(1, { training_loss: 0.9 }), point(2, { training_loss: 0.8, loss: 0.7 })];
    expect(overlaid([points], "round", ["loss", "training_loss"])[1]).toEqual([0.9, 0.7]);
  });

  it("mark abandoned rounds and changes at their places", () => {
    const points = [point(1, {}), point(2, { abandoned: true })];
    const change = { at_ms: 0, wall_ms: 150, round: 1, became: "running", cause: "round_policy" };
    const pause = { at_ms: 0, wall_ms: 120, round: 1, became: "paused", cause: "operator" };
    expect(marksOf(points, [pause, change], "wall")).toEqual([
      { x: 200, label: "Round 2 abandoned", kind: "abandoned" },
      { x: 120, label: "Paused after round 1", kind: "change" },
      { x: 150, label: "Round policy changed after round 1", kind: "change" },
    ]);
    const end = { at_ms: 0, wall_ms: 210, round: 2, became: "completed", cause: "rounds" };
    expect(
      marksOf(points, [end], "wall").map(({ kind }) => kind),
      "the end is no change",
    ).toEqual(["abandoned"]);
    expect(marksOf(points, [change], "bytes").map((mark) => mark.x)).toEqual([20, 10]);
  });
});

describe("a logarithmic axis", () => {
  it("has ticks at 1, 2 and 5 of each power of ten, or round steps within one", () => {
    expect(logTicks(0.09, 2).map((tick) => Number(tick.toPrecision(3)))).toEqual([0.1, 0.2, 0.5, 1, 2]);
    expect(logTicks(3, 4).length).toBeGreaterThan(2);
    expect(logTicks(0, 4)).toEqual([]);
  });
});
