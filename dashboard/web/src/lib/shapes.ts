// Session shapes: the events of a client's session, one letter each.

import type { ShapeCount } from "../api/types";

const STEPS: Record<string, string> = {
  c: "checked in",
  a: "assigned",
  d: "downloaded",
  t: "trained",
  u: "uploading",
  "+": "done",
  "!": "rejected",
  x: "failed",
  i: "interrupted",
  ".": "round closed without it",
  "~": "finished late",
  s: "stopped unfinished",
};

/** `cadtu+` in words. A letter of a newer coordinator stays as it is. */
export function shapeWords(shape: string): string {
  return [...shape].map((letter) => STEPS[letter] ?? letter).join(", ");
}

/** The state in which a session ended; it decides the colour. */
export function shapeEnd(shape: string): "reported" | "rejected" | "failed" | "expired" | "assigned" {
  if (shape.includes("+")) return "reported";
  if (shape.includes("!")) return "rejected";
  if (/[xi]/.test(shape)) return "failed";
  if (/[.~s]/.test(shape)) return "expired";
  return "assigned";
}

export interface FunnelStep {
  letter: string;
  label: string;
  count: number;
}

/** How many sessions reached each step. A later letter implies the earlier ones, even where these are missing. */
export function funnel(shapes: readonly ShapeCount[]): FunnelStep[] {
  const order = [..."cadtu+"];
  const reached = order.map(() => 0);
  for (const { shape, count } of shapes) {
    const furthest = Math.max(...[...shape].map((letter) => order.indexOf(letter)));
    for (let step = 0; step <= furthest; step += 1) reached[step]! += count;
  }
  return order.map((letter, index) => ({ letter, label: STEPS[letter]!, count: reached[index]! }));
}

/** The same shape counted once, most frequent first. */
export function merged(shapes: readonly ShapeCount[]): ShapeCount[] {
  const counts = new Map<string, number>();
  for (const { shape, count } of shapes) counts.set(shape, (counts.get(shape) ?? 0) + count);
  return [...counts]
    .map(([shape, count]) => ({ shape, count }))
    .sort((a, b) => b.count - a.count || (a.shape < b.shape ? -1 : 1));
}
