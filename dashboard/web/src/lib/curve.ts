// Learning curves: the axes, the columns to draw, and the curve in words.

import type { CurvePoint, Target } from "../api/types";

export type Axis = "round" | "wall" | "clients" | "bytes";
export type Measure = "accuracy" | "loss" | "training_loss";

export const AXES: { axis: Axis; label: string; hint: string }[] = [
  { axis: "round", label: "Rounds", hint: "round" },
  { axis: "wall", label: "Wall time", hint: "time since the job was created" },
  { axis: "clients", label: "Client-hours", hint: "time that clients worked, added up" },
  { axis: "bytes", label: "Bytes up", hint: "bytes that clients sent, added up" },
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

/** Time from the job's creation to a target. A target has the date, or that time itself. */
export function targetWallMs(target: Target, createdAtMs: number): number {
  return target.at_ms >= createdAtMs ? target.at_ms - createdAtMs : target.at_ms;
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
