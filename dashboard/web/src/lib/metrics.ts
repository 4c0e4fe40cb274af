// Named scalars and counts by class: the columns to draw, the rows of tables, and both in words.

import type { ClassCounts, ClassTotals, MetricCurve } from "../api/types";
import { real } from "./format";

/** Columns of x (rounds), mean, p10 and p90, as uPlot takes them. */
export function metricColumns(curve: MetricCurve): number[][] {
  const { points } = curve;
  return [
    points.map((point) => point.round),
    points.map((point) => point.mean),
    points.map((point) => point.p10),
    points.map((point) => point.p90),
  ];
}

/** The curve in one sentence, for screen readers. */
export function describeMetric(curve: MetricCurve): string {
  const first = curve.points[0];
  const last = curve.points.at(-1);
  if (!first || !last) return `${curve.name}: nothing reported yet.`;
  const now = `mean ${real(last.mean)} at round ${last.round}, p10 ${real(last.p10)}, p90 ${real(last.p90)}`;
  return first === last
    ? `${curve.name}: ${now}.`
    : `${curve.name} from ${real(first.mean)} at round ${first.round}; ${now}.`;
}

export interface ClassRow {
  name: string;
  examples: number;
  right: number;
  /** Undefined without examples. */
  accuracy: number | undefined;
}

/** One row per class. */
export function classRows(totals: ClassTotals): ClassRow[] {
  return totals.examples.map((examples, index) => {
    const right = totals.right[index] ?? 0;
    return { name: String(index), examples, right, accuracy: examples > 0 ? right / examples : undefined };
  });
}

/** The share of a cell in its row, from 0 (none) to 9 (all). */
export function heat(counts: Extract<ClassCounts, { kind: "confusion" }>, truth: number, predicted: number): number {
  const row = counts.counts.slice(truth * counts.classes, (truth + 1) * counts.classes);
  const sum = row.reduce((a, b) => a + b, 0);
  return sum === 0 ? 0 : Math.ceil((9 * (row[predicted] ?? 0)) / sum);
}
