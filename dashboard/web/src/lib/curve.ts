// Learning curves: the axes, the columns to draw, and the curve in words.

import type { CurveMark, CurvePoint, Target } from "../api/types";
import type { Mark } from "../charts/marks";
import { words } from "./format";

export type Axis = "round" | "wall" | "clients" | "bytes";
export type Measure = "accuracy" | "loss" | "training_loss";

export const AXES: { axis: Axis; label: string; hint: string; title: string }[] = [
  { axis: "round", label: "Rounds", hint: "round", title: "Round" },
  { axis: "wall", label: "Wall time", hint: "time since the job was created", title: "Time since creation" },
  {
    axis: "clients",
    label: "Client-hours",
    hint: "time that clients worked, added up",
    title: "Client work, added up",
  },
  { axis: "bytes", label: "Bytes up", hint: "bytes that clients sent, added up", title: "Bytes up, added up" },
];

/** Where a point lies on the axis, in rounds, milliseconds or bytes. */
export function along(point: CurvePoint, axis: Axis): number {
  switch (axis) {
    case "round":
      return point.round;
    case "wall":
      return point.wall_ms;
    case "clients":
      return point.clients_ms;
    case "bytes":
      return point.bytes_up;
  }
}

/** One column of x and one per measure, in rising order of x, as uPlot takes them; null where nothing was measured. */
export function columns(points: readonly CurvePoint[], axis: Axis, measures: readonly Measure[]): (number | null)[][] {
  const used = points.filter((point) => measures.some((measure) => point[measure] !== undefined));
  used.sort((a, b) => along(a, axis) - along(b, axis));
  return [
    used.map((point) => along(point, axis)),
    ...measures.map((measure) => used.map((point) => point[measure] ?? null)),
  ];
}

/** Columns of x, accuracy, what a tenth of the clients do not exceed, and the ends of the 95 % interval. */
export function accuracyColumns(points: readonly CurvePoint[], axis: Axis): (number | null)[][] {
  const used = points.filter(({ accuracy }) => accuracy !== undefined);
  used.sort((a, b) => along(a, axis) - along(b, axis));
  return [
    used.map((point) => along(point, axis)),
    used.map(({ accuracy }) => accuracy ?? null),
    used.map(({ measured_on: on }) => on?.p10 ?? null),
    used.map(({ measured_on: on }) => on?.low ?? null),
    used.map(({ measured_on: on }) => on?.high ?? null),
  ];
}

/** Time from the job's creation to a target. A target has the date, or that time itself. */
export function targetWallMs(target: Target, createdAtMs: number): number {
  return target.at_ms >= createdAtMs ? target.at_ms - createdAtMs : target.at_ms;
}

/** Of the targets that one round reached together the highest; the job's own in any case. */
export function distinctTargets(targets: readonly Target[], own: number | undefined): Target[] {
  return targets.filter(({ round, accuracy }, index) => targets[index + 1]?.round !== round || accuracy === own);
}

/** The curve in one sentence, for screen readers. */
export function describe(
  points: readonly CurvePoint[],
  measure: Measure,
  name: string,
  format: (value: number) => string,
): string {
  const measured = points.filter((point) => point[measure] !== undefined);
  const first = measured[0];
  const last = measured.at(-1);
  if (!first || !last) return `${name}: nothing measured yet.`;
  const place = (point: CurvePoint) => `${format(point[measure]!)} at round ${point.round}`;
  if (first === last) return `${name}: ${place(first)}.`;
  const best = measured.reduce((a, b) =>
    (measure === "accuracy" ? b[measure]! > a[measure]! : b[measure]! < a[measure]!) ? b : a,
  );
  return `${name} from ${place(first)} to ${place(last)}; best ${place(best)}.`;
}

/** Abandoned rounds, pauses and changes as marks on the axis. */
export function marksOf(points: readonly CurvePoint[], changes: readonly CurveMark[], axis: Axis): Mark[] {
  const abandoned = points
    .filter((point) => point.abandoned)
    .map((point): Mark => ({ x: along(point, axis), label: `Round ${point.round} abandoned`, kind: "abandoned" }));
  // The curve itself shows where it ends.
  const changed = changes
    .filter(({ became }) => became !== "completed" && became !== "stopped")
    .map((change): Mark => ({ x: placeOf(change, points, axis), label: told(change), kind: "change" }));
  return [...abandoned, ...changed];
}

/** A change lies after the last round that had ended by then. */
function placeOf(change: CurveMark, points: readonly CurvePoint[], axis: Axis): number {
  if (axis === "wall") return change.wall_ms;
  const before = points.findLast((point) => point.round <= change.round);
  return before ? along(before, axis) : 0;
}

const CAUSES: Record<string, string> = { round_policy: "Round policy changed" };

function told({ became, cause, round }: CurveMark): string {
  const states: Record<string, string> = {
    paused: "Paused",
    running: "Resumed",
    taken_over: cause ?? "Another coordinator took over",
  };
  const what = CAUSES[cause ?? ""] ?? states[became] ?? words(became);
  return round > 0 ? `${what} after round ${round}` : what;
}

/** Columns of several curves over one x axis: a row for each x that any of them has. */
export function overlaid(
  curves: readonly (readonly CurvePoint[])[],
  axis: Axis,
  measures: readonly Measure[],
): (number | null)[][] {
  const measured = (point: CurvePoint) =>
    measures.map((measure) => point[measure]).find((value) => value !== undefined);
  const each = curves.map((points) => new Map(points.map((point) => [along(point, axis), measured(point) ?? null])));
  const x = [...new Set(each.flatMap((values) => [...values].filter(([, y]) => y !== null).map(([at]) => at)))];
  x.sort((a, b) => a - b);
  return [x, ...each.map((values) => x.map((at) => values.get(at) ?? null))];
}
