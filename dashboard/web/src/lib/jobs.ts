// Rows of the job table: which of them a filter shows.

import type { JobOverview } from "../api/types";

export interface JobFilter {
  /** Words, each of which must occur in name, population, tags, notes or id. */
  text: string;
  /** `open`, `ended`, or a state; empty for all. */
  state: string;
}

export function isEnded({ job }: JobOverview): boolean {
  return job.state === "stopped" || job.state === "completed";
}

/** Jobs in trouble come first, and those that have ended with a warning after those that go on. */
export function rank(entry: JobOverview): number {
  const severity = entry.health[0]?.severity;
  if (severity === "trouble") return 0;
  if (severity === "warning") return isEnded(entry) ? 2 : 1;
  return 3;
}

export function passes(entry: JobOverview, { text, state }: JobFilter): boolean {
  const { job } = entry;
  const fits =
    state === "" || (state === "open" ? !isEnded(entry) : state === "ended" ? isEnded(entry) : job.state === state);
  const place = [job.name, job.population, ...(job.tags ?? []), job.notes ?? "", job.id].join(" ").toLowerCase();
  return (
    fits &&
    text
      .toLowerCase()
      .split(/\s+/)
      .every((word) => place.includes(word))
  );
}
