import { describe, expect, it } from "vitest";
import type { ClassCounts, MetricCurve } from "../src/api/types";
import { real } from "../src/lib/format";
import { classRows, describeMetric, heat, metricColumns } from "../src/lib/metrics";

const point = (round: number, mean: number) => ({
  round,
  at_ms: 0,
  name: "auc",
  reports: 3,
  mean,
  min: 0,
  p10: 0.1,
  p50: 0.5,
  p90: 0.9,
  max: 1,
});

describe("metrics", () => {
  it("are columns of mean and quantiles, and a sentence", () => {
    const curve: MetricCurve = { name: "auc", task: "evaluate", rounds: 2, points: [point(1, 0.25), point(4, 0.75)] };
    expect(metricColumns(curve)).toEqual([
      [1, 4],
      [0.25, 0.75],
      [0.1, 0.1],
      [0.9, 0.9],
    ]);
    expect(describeMetric(curve)).toContain(`auc from ${real(0.25)} at round 1; mean ${real(0.75)} at round 4`);
    expect(describeMetric({ ...curve, points: [] })).toContain("nothing reported");
    const own = { ...curve, name: "personalised_accuracy" };
    expect(describeMetric(own)).toContain("Personalised accuracy from 25.00 % at round 1; mean 75.00 %");
  });
});

describe("classes", () => {
  it("have an accuracy where they have examples", () => {
    const rows = classRows({ examples: [4, 0], right: [3, 0] });
    expect(rows.map((row) => row.accuracy)).toEqual([0.75, undefined]);
  });

  it("are the darker the larger their share of the row", () => {
    const counts: ClassCounts = { kind: "confusion", classes: 3, counts: [9, 0, 1, 0, 5, 0, 0, 0, 0] };
    expect(heat(counts, 0, 0)).toBe(9);
    expect(heat(counts, 0, 1)).toBe(0);
    expect(heat(counts, 0, 2)).toBe(1);
    expect(heat(counts, 1, 1)).toBe(9);
    expect(heat(counts, 2, 2)).toBe(0);
  });
});
