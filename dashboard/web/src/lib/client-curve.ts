// The curve of one client: its loss and its time in the training rounds of a job.

import type { ClientAssignment } from "../api/types";
import { tookMs } from "./assignments";

export interface ClientCurve {
  job: string;
  /** Rounds, losses and times in milliseconds: columns of a plot. */
  loss: (number | null)[][];
  took: (number | null)[][];
}

/** Fewer rounds are no curve. */
const ROUNDS_MIN = 3;

/** The curves of the jobs to which a client reported often enough, in the order of its newest report. */
export function clientCurves(newestFirst: readonly ClientAssignment[]): ClientCurve[] {
  const jobs = new Map<string, ClientAssignment[]>();
  for (const item of newestFirst)
    if (item.task === "train" && item.state === "reported") jobs.set(item.job, [item, ...(jobs.get(item.job) ?? [])]);
  const longEnough = [...jobs].filter(([, items]) => items.length >= ROUNDS_MIN);
  return longEnough.map(([job, items]) => {
    const rounds = items.map(({ round }) => round);
    const known = (value: number | undefined) => value ?? null;
    const loss = items.some((item) => item.loss !== undefined) ? [rounds, items.map((item) => known(item.loss))] : [];
    return { job, loss, took: [rounds, items.map((item) => known(tookMs(item)))] };
  });
}

/** A curve in words. */
export function curveInWords(
  [rounds = [], values = []]: (number | null)[][],
  format: (value: number) => string,
): string {
  const known = rounds.flatMap((round, index) => {
    const value = values[index];
    return round === null || value === null || value === undefined ? [] : [{ round, value }];
  });
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last) return "";
  return `${format(first.value)} in round ${first.round}, ${format(last.value)} in round ${last.round}.`;
}
