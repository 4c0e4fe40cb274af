// Which events of the feed a view of a job loads its answers again for.

import type { FeedEvent } from "../api/types";

/** Accepts the events of a job, those of single assignments too. */
export function ofJob(job: string): (event: FeedEvent) => boolean {
  return (event) => event.job === job;
}

/** Accepts the events of a job and its rounds, which change curves, tables and models; not those of assignments. */
export function endsSomething(job: string): (event: FeedEvent) => boolean {
  return (event) => event.job === job && event.assignment === undefined;
}
