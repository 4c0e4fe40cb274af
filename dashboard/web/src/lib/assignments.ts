// The times of assignments: their segments on a time line, and the reports that another deadline would have dropped.

import type { Assignment, Round } from "../api/types";

export type SegmentKind = "download" | "train" | "upload" | "wait" | "lost" | "late";

export interface Segment {
  kind: SegmentKind;
  fromMs: number;
  toMs: number;
}

/** When the round closed, for its clients the end of their work; `nowMs` while it is open. */
export function closedAtMs(round: Round, nowMs: number): number {
  if (round.closed_at_ms !== undefined) return round.closed_at_ms;
  if (round.phase === "selecting" || round.phase === "training") return nowMs;
  return round.ended_at_ms ?? nowMs;
}

/**
 * The time line of one assignment. Without the time of the download, the client's own `work_ms` says how long it
 * trained before its upload; without both, download and training are one segment.
 */
export function segments(assignment: Assignment, round: Round, nowMs: number): Segment[] {
  const open = assignment.state === "assigned";
  const endMs = assignment.ended_at_ms ?? closedAtMs(round, nowMs);
  const result: Segment[] = [];
  const add = (kind: SegmentKind, fromMs: number, toMs: number) => {
    if (toMs > fromMs) result.push({ kind, fromMs, toMs });
  };
  const lost = assignment.state === "expired" || assignment.state === "failed";
  const refused = assignment.state === "rejected";
  const uploadMs =
    assignment.upload_at_ms ?? (assignment.upload_ms === undefined ? undefined : endMs - assignment.upload_ms);
  const trainedMs = uploadMs ?? endMs;
  const guessMs =
    assignment.work_ms === undefined ? undefined : Math.max(assignment.assigned_at_ms, trainedMs - assignment.work_ms);
  const fetchedMs = assignment.fetched_at_ms ?? (lost ? undefined : guessMs);
  if (fetchedMs === undefined) {
    add(lost || refused ? "lost" : "download", assignment.assigned_at_ms, endMs);
  } else {
    add("download", assignment.assigned_at_ms, fetchedMs);
    if (uploadMs === undefined) {
      add(lost ? "lost" : "train", fetchedMs, endMs);
    } else {
      add("train", fetchedMs, uploadMs);
      add(lost ? "lost" : "upload", uploadMs, endMs);
    }
  }
  if (!open && !lost && !refused) add("wait", endMs, closedAtMs(round, nowMs));
  // What a straggler did after the round had closed.
  const backMs = assignment.late_at_ms ?? assignment.stopped_at_ms;
  if (backMs !== undefined) add("late", endMs, backMs);
  return result;
}

/** The client's own time from the draw: until its report, or until a straggler came back. None if it never did. */
export function tookMs(assignment: Assignment): number | undefined {
  const { straggler, late_at_ms, stopped_at_ms, ended_at_ms, assigned_at_ms } = assignment;
  const end = straggler === undefined ? ended_at_ms : (late_at_ms ?? stopped_at_ms);
  return end === undefined ? undefined : end - assigned_at_ms;
}

/** Time from the draw of the cohort to the report; none for a client that did not report. */
export function reportMs(assignment: Assignment): number | undefined {
  if (assignment.state !== "reported" || assignment.ended_at_ms === undefined) return undefined;
  return assignment.ended_at_ms - assignment.assigned_at_ms;
}

export function trainMs(assignment: Assignment): number | undefined {
  const { fetched_at_ms, upload_at_ms, work_ms } = assignment;
  if (fetched_at_ms !== undefined && upload_at_ms !== undefined) return upload_at_ms - fetched_at_ms;
  return work_ms;
}

export function uploadMs(assignment: Assignment): number | undefined {
  if (assignment.upload_ms !== undefined) return assignment.upload_ms;
  const { upload_at_ms, ended_at_ms } = assignment;
  return upload_at_ms !== undefined && ended_at_ms !== undefined && assignment.state === "reported"
    ? ended_at_ms - upload_at_ms
    : undefined;
}

/** Time from the draw until a straggler had finished after the close; none for one that stopped or never came back. */
export function lateMs(assignment: Assignment): number | undefined {
  const { straggler, late_at_ms, assigned_at_ms } = assignment;
  return straggler === "finished_late" && late_at_ms !== undefined ? late_at_ms - assigned_at_ms : undefined;
}
