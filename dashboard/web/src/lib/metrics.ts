// Named scalars and counts by class: the columns to draw, the rows of tables, and both in words.

import type { ClassCounts, ClassTotals, MetricCurve } from "../api/types";
import { percent, real } from "./format";

/** Names of metrics that the coordinator's own clients report. */
const OWN: Record<string, string> = {
  personalised_accuracy: "Personalised accuracy",
  personalised_loss: "Personalised loss",
};

/** A metric's name as people read it: that of the clients' own models in words, any other as it is. */
export const metricTitle = (name: string): string => OWN[name] ?? name;

/** How a metric's values are written. */
export const metricFormat = (name: string): ((value: number) => string) =>
  name === "personalised_accuracy" ? (value) => percent(value, 2) : real;

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
  const [title, text] = [metricTitle(curve.name), metricFormat(curve.name)];
  if (!first || !last) return `${title}: nothing reported yet.`;
  const now = `mean ${text(last.mean)} at round ${last.round}, p10 ${text(last.p10)}, p90 ${text(last.p90)}`;
  return first === last ? `${title}: ${now}.` : `${title} from ${text(first.mean)} at round ${first.round}; ${now}.`;
}

export interface ClassRow {
  name: string;
  examples: number;
  right: number;
  /** Undefined without examples. */
  accuracy: number | undefined;
}

/** The name of a class: its number where the job names none. */
export function className(names: readonly string[] | undefined, index: number): string {
  return names?.[index] ?? String(index);
}

/** One row per class, with the names that the job's file has. */
export function classRows(totals: ClassTotals, names?: readonly string[]): ClassRow[] {
  return totals.examples.map((examples, index) => {
    const right = totals.right[index] ?? 0;
    return { name: className(names, index), examples, right, accuracy: examples > 0 ? right / examples : undefined };
  });
}

/** The share of a cell in its row, from 0 (none) to 9 (all). */
export function heat(counts: Extract<ClassCounts, { kind: "confusion" }>, truth: number, predicted: number): number {
  const row = counts.counts.slice(truth * counts.classes, (truth + 1) * counts.classes);
  const sum = row.reduce((a, b) => a + b, 0);
  return sum === 0 ? 0 : Math.ceil((9 * (row[predicted] ?? 0)) / sum);
}
