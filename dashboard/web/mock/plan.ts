// A made-up round as a function of its number and the time: history and the present come from the same rules.

import type { Assignment, MeasuredOn, Round, RoundDetail, Task } from "../src/api/types";
import { normal, uniform } from "./random";

export interface MockClient {
  id: string;
  number: number;
  speed: number;
  attributes: Record<string, string>;
  examples: number;
}

export interface JobRules {
  seed: number;
  goal: number;
  minimum: number;
  overSelection: number;
  deadlineMs: number;
  selectMs: number;
  /** Training time of a client of speed 1. */
  trainMs: number;
  parameters: number;
  /** Best accuracy, and rounds in which two thirds of the way to it are made. */
  ceiling: number;
  pace: number;
  /** Share of the clients that give up. */
  failing: number;
}

export interface PlannedRound {
  round: Round;
  assignments: Assignment[];
  /** When the last of its times has come. */
  endMs: number;
}

const FAILURES = ["interrupted", "interrupted", "out_of_memory", "no_data", "diverged"];
const REFUSALS = ["an element of the update is larger than 32", "the update is not finite"];
const AGGREGATE_MS = 900;

export function accuracyAfter(rules: JobRules, number: number): number {
  const clean = rules.ceiling - (rules.ceiling - 0.1) * Math.exp(-number / rules.pace);
  return Math.min(
    0.9999,
    Math.max(0.02, clean + 0.012 * normal(rules.seed, 71, number) * Math.exp(-number / (rules.pace * 6))),
  );
}

/** The whole of a round, as it will have been. */
export function plan(
  rules: JobRules,
  clients: readonly MockClient[],
  number: number,
  task: Task,
  openedAtMs: number,
): PlannedRound {
  const train = task === "train";
  const salt = train ? 1 : 2;
  const goal = train ? rules.goal : Math.max(1, Math.round(rules.goal / 5));
  const minimum = train ? rules.minimum : 1;
  const cohort = Math.min(clients.length, Math.ceil(goal * (train ? rules.overSelection : 1) - 1e-9));
  const selectedAtMs = openedAtMs + rules.selectMs;
  const deadlineAtMs = selectedAtMs + rules.deadlineMs;
  const modelBytes = rules.parameters * 4 + 512;
  const first = Math.floor(uniform(rules.seed, number, salt) * clients.length);
  const drafts = Array.from({ length: cohort }, (_, at) =>
    draft(rules, clients[(first + at * 7) % clients.length]!, number, salt, selectedAtMs, modelBytes, train),
  );
  const unique = [...new Map(drafts.map((entry) => [entry.client, entry])).values()];

  const reports = unique
    .filter((entry) => entry.state === "reported")
    .map((entry) => entry.ended_at_ms!)
    .sort((a, b) => a - b);
  const goalAtMs = reports[goal - 1] ?? Number.POSITIVE_INFINITY;
  const lastMs = Math.max(...unique.map((entry) => entry.ended_at_ms!));
  const closedAtMs = Math.min(goalAtMs, deadlineAtMs, Math.max(lastMs, selectedAtMs));
  const assignments = unique
    .map((entry) => settle(entry, closedAtMs))
    .sort((a, b) => a.client_number - b.client_number);
  const counted = assignments.filter((entry) => entry.state === "reported");
  const committed = counted.length >= minimum;
  const endMs = closedAtMs + (committed ? AGGREGATE_MS : 5);
  const measured = accuracyAfter(rules, number);
  const sum = (of: (entry: Assignment) => number) => assignments.reduce((total, entry) => total + of(entry), 0);
  const by = (state: string) => assignments.filter((entry) => entry.state === state).length;
  const round: Round = {
    number,
    task,
    phase: committed ? "committed" : "abandoned",
    ...(committed ? {} : { reason: "too_few_reports" }),
    base_version: train ? number - 1 : number,
    seed: Math.floor(uniform(rules.seed, number, 9) * 2 ** 52),
    goal,
    minimum,
    cohort: assignments.length,
    reported: counted.length,
    rejected: by("rejected"),
    failed: by("failed"),
    expired: by("expired"),
    assigned: 0,
    opened_at_ms: openedAtMs,
    selected_at_ms: selectedAtMs,
    deadline_at_ms: deadlineAtMs,
    closed_at_ms: closedAtMs,
    ended_at_ms: endMs,
    weight: sum((entry) => (entry.state === "reported" ? (entry.weight ?? 0) : 0)),
    bytes_up: sum((entry) => entry.bytes_up),
    bytes_down: sum((entry) => entry.bytes_down),
    raw_bytes_up: sum((entry) => entry.raw_bytes_up ?? 0),
    raw_bytes_down: sum((entry) => entry.raw_bytes_down ?? 0),
    clients_ms: sum((entry) => entry.work_ms ?? 0),
    ...(committed && train
      ? {
          training_loss: lossAt(measured) * 0.9,
          step_norm: 4 / Math.sqrt(number),
          diversity: 0.05 + 0.6 * (1 - Math.exp(-number / rules.pace)),
        }
      : {}),
    ...(committed ? { accuracy: measured, measured_on: measuredOn(measured), loss: lossAt(measured) } : {}),
  };
  return { round, assignments, endMs };
}

/** Examples and clients of each evaluation. */
const [EXAMPLES, EVALUATORS] = [268, 14];

/** What an accuracy was measured on: Wilson's interval, and a spread over clients. */
export function measuredOn(accuracy: number): MeasuredOn {
  const z = 1.96;
  const centre = (accuracy + z ** 2 / (2 * EXAMPLES)) / (1 + z ** 2 / EXAMPLES);
  const root = Math.sqrt((accuracy * (1 - accuracy)) / EXAMPLES + z ** 2 / (4 * EXAMPLES ** 2));
  const half = (z * root) / (1 + z ** 2 / EXAMPLES);
  return {
    examples: EXAMPLES,
    clients: EVALUATORS,
    low: Math.max(0, centre - half),
    high: Math.min(1, centre + half),
    worst: accuracy * 0.72,
    p10: accuracy * 0.86,
  };
}

/** A committed round in round figures, without its clients: for curves over more rounds than one wants to plan. */
export function sketch(
  rules: JobRules,
  number: number,
  openedAtMs: number,
): Pick<
  Round,
  | "number"
  | "phase"
  | "ended_at_ms"
  | "clients_ms"
  | "bytes_up"
  | "bytes_down"
  | "reported"
  | "cohort"
  | "accuracy"
  | "measured_on"
  | "loss"
  | "training_loss"
> {
  const cohort = Math.ceil(rules.goal * rules.overSelection - 1e-9);
  const accuracy = accuracyAfter(rules, number);
  return {
    number,
    phase: "committed",
    ended_at_ms: openedAtMs + rules.selectMs + Math.round(rules.trainMs * 1.8),
    cohort,
    reported: rules.goal,
    accuracy,
    measured_on: measuredOn(accuracy),
    loss: lossAt(accuracy),
    training_loss: lossAt(accuracy) * 0.9,
    clients_ms: Math.round(cohort * rules.trainMs * 1.1),
    bytes_up: rules.goal * Math.round(rules.parameters * 1.04),
    bytes_down: cohort * Math.round(rules.parameters * 1.6),
  };
}

export function lossAt(accuracy: number): number {
  return -Math.log(accuracy) * 1.4 + 0.03;
}

function draft(
  rules: JobRules,
  client: MockClient,
  number: number,
  salt: number,
  selectedAtMs: number,
  modelBytes: number,
  train: boolean,
): Assignment {
  const key = [rules.seed, number, client.number, salt];
  const spread = (which: number) => Math.exp(0.28 * normal(...key, which));
  const fetchedAtMs = selectedAtMs + Math.round((200 + modelBytes / 4000) * client.speed * spread(3));
  const workMs = Math.round(rules.trainMs * (train ? 1 : 0.25) * client.speed * spread(4));
  const uploadAtMs = fetchedAtMs + workMs;
  const uploadMs = Math.round((120 + (train ? modelBytes / 8000 : 0)) * client.speed * spread(5));
  const raw = train ? modelBytes : 0;
  const base = {
    id: `assignment_${key.map((part) => part.toString(16).padStart(8, "0")).join("")}`,
    client: client.id,
    client_number: client.number,
    assigned_at_ms: selectedAtMs,
    fetched_at_ms: fetchedAtMs,
    bytes_up: 0,
    bytes_down: Math.round(modelBytes * 0.4),
    raw_bytes_up: 0,
    raw_bytes_down: modelBytes,
    work_ms: workMs,
    attributes: client.attributes,
  };
  const fate = uniform(...key, 6);
  if (fate < rules.failing) {
    const reason = FAILURES[Math.floor(uniform(...key, 7) * FAILURES.length)]!;
    const at = fetchedAtMs + Math.round(workMs * uniform(...key, 8));
    return {
      ...base,
      state: "failed",
      reason,
      ended_at_ms: at,
      work_ms: at - fetchedAtMs,
      shape: reason === "interrupted" ? "cadi" : "cadx",
    };
  }
  const sent = {
    ...base,
    upload_at_ms: uploadAtMs,
    upload_ms: uploadMs,
    ended_at_ms: uploadAtMs + uploadMs,
    bytes_up: Math.round(raw * 0.26) + 400,
    raw_bytes_up: raw,
    weight: client.examples,
    loss: 0.2 + 0.3 * uniform(...key, 10),
    ...(train ? {} : { accuracy: Math.min(1, accuracyAfter(rules, number) + 0.03 * normal(...key, 13)) }),
  };
  if (train && fate > 1 - rules.failing / 4) {
    return {
      ...sent,
      state: "rejected",
      reason: REFUSALS[Math.floor(uniform(...key, 11) * REFUSALS.length)]!,
      shape: "cadtu!",
    };
  }
  const cosine = 0.55 + 0.14 * normal(...key, 12) - (client.attributes.platform === "linux" ? 0.25 : 0);
  return {
    ...sent,
    state: "reported",
    shape: "cadtu+",
    ...(train
      ? {
          update_norm: (1.2 + 0.25 * normal(...key, 14)) * Math.exp(0.1 * client.speed),
          cosine: Math.max(-0.3, Math.min(0.98, cosine)),
        }
      : {}),
  };
}

/** A client that had not ended when the round closed is a straggler. */
function settle(entry: Assignment, closedAtMs: number): Assignment {
  if (entry.ended_at_ms! <= closedAtMs) return entry;
  const {
    upload_at_ms: uploadAtMs,
    ended_at_ms: endedAtMs,
    update_norm: _norm,
    cosine: _cosine,
    reason: _reason,
    weight: _weight,
    loss: _loss,
    accuracy: _accuracy,
    upload_ms: _uploadMs,
    work_ms: _work,
    ...rest
  } = entry;
  const fetched = entry.fetched_at_ms! <= closedAtMs;
  const uploading = uploadAtMs !== undefined && uploadAtMs <= closedAtMs;
  const { fetched_at_ms: fetchedAtMs, ...bare } = rest;
  const late = uniform(entry.client_number, closedAtMs) < 0.5;
  return {
    ...bare,
    ...(fetched ? { fetched_at_ms: fetchedAtMs! } : {}),
    ...(uploading ? { upload_at_ms: uploadAtMs } : {}),
    state: "expired",
    ended_at_ms: closedAtMs,
    bytes_up: 0,
    raw_bytes_up: 0,
    ...(late && endedAtMs !== undefined
      ? {
          late_at_ms: endedAtMs,
          straggler: "finished_late" as const,
          explanation: `finished ${((endedAtMs - closedAtMs) / 1000).toFixed(1)} s after the round had closed`,
        }
      : { straggler: "not_back" as const, explanation: "never came back" }),
    shape: `ca${fetched ? "d" : ""}${uploading || late ? "t" : ""}${uploading ? "u" : ""}.${late ? "~" : ""}`,
  };
}

/** The round as it stands at a moment of its life. */
export function at(planned: PlannedRound, nowMs: number): PlannedRound {
  const whole = planned.round;
  if (nowMs >= planned.endMs) return planned;
  const {
    closed_at_ms: closedAtMs,
    ended_at_ms: _ended,
    accuracy: _accuracy,
    loss: _loss,
    training_loss: _training,
    step_norm: _norm,
    diversity: _diversity,
    reason: _reason,
    ...open
  } = whole;
  if (nowMs < whole.selected_at_ms!) {
    const { selected_at_ms: _selected, deadline_at_ms: _deadline, ...selecting } = open;
    return {
      ...planned,
      assignments: [],
      round: {
        ...selecting,
        phase: "selecting",
        cohort: 0,
        reported: 0,
        rejected: 0,
        failed: 0,
        expired: 0,
        assigned: 0,
        weight: 0,
        bytes_up: 0,
        bytes_down: 0,
        clients_ms: 0,
      },
    };
  }
  const assignments = planned.assignments.map((entry) => soFar(entry, nowMs));
  const by = (state: string) => assignments.filter((entry) => entry.state === state).length;
  const closed = nowMs >= closedAtMs!;
  return {
    ...planned,
    assignments,
    round: {
      ...open,
      phase: closed ? "aggregating" : "training",
      ...(closed ? { closed_at_ms: closedAtMs! } : {}),
      reported: by("reported"),
      rejected: by("rejected"),
      failed: by("failed"),
      expired: by("expired"),
      assigned: by("assigned"),
      bytes_up: assignments.reduce((sum, entry) => sum + entry.bytes_up, 0),
    },
  };
}

function soFar(entry: Assignment, nowMs: number): Assignment {
  if (entry.ended_at_ms! <= nowMs) return entry;
  const { id, client, client_number, assigned_at_ms, fetched_at_ms, upload_at_ms, attributes, bytes_down } = entry;
  const fetched = fetched_at_ms !== undefined && fetched_at_ms <= nowMs;
  const uploading = upload_at_ms !== undefined && upload_at_ms <= nowMs;
  return {
    id,
    client,
    client_number,
    assigned_at_ms,
    state: "assigned",
    bytes_up: 0,
    bytes_down: fetched ? bytes_down : 0,
    ...(attributes ? { attributes } : {}),
    ...(fetched ? { fetched_at_ms } : {}),
    ...(uploading ? { upload_at_ms } : {}),
    shape: `ca${fetched ? "d" : ""}${uploading ? "tu" : ""}`,
  };
}

export function detailOf({ round, assignments }: PlannedRound, evaluation: Round | undefined): RoundDetail {
  const spans: RoundDetail["phases"] = [
    { phase: "selecting", began_at_ms: round.opened_at_ms, ...end(round.selected_at_ms) },
  ];
  if (round.selected_at_ms !== undefined)
    spans.push({ phase: "training", began_at_ms: round.selected_at_ms, ...end(round.closed_at_ms) });
  if (round.closed_at_ms !== undefined)
    spans.push({ phase: "aggregating", began_at_ms: round.closed_at_ms, ...end(round.ended_at_ms) });
  const times = assignments
    .filter((entry) => entry.state === "reported")
    .map((entry) => entry.ended_at_ms! - entry.assigned_at_ms)
    .sort((a, b) => a - b);
  const what_if = [0.25, 0.5, 0.75, 0.9]
    .map((share) => times[Math.floor(share * times.length)])
    .filter((ms) => ms !== undefined)
    .map((deadline_ms) => ({ deadline_ms, dropped: times.filter((ms) => ms > deadline_ms).length }));
  return { round, phases: spans, explanation: explain(round, times), ...(evaluation ? { evaluation } : {}), what_if };
}

function end(ms: number | undefined): { ended_at_ms?: number } {
  return ms === undefined ? {} : { ended_at_ms: ms };
}

function explain(round: Round, times: readonly number[]): string {
  const slowest = times.at(-1) === undefined ? "" : `, the slowest of them after ${Math.round(times.at(-1)! / 1000)} s`;
  switch (round.phase) {
    case "selecting":
      return `Waits for ${round.goal} available clients.`;
    case "training":
      return (
        `Waits for ${Math.max(0, round.goal - round.reported)} more updates or the deadline; ` +
        `${round.assigned} clients still work.`
      );
    case "aggregating":
      return "The new model is being made.";
    case "abandoned":
      return (
        `Abandoned: ${round.reported} of at least ${round.minimum} updates came before the deadline; ` +
        `${round.failed} clients failed and ${round.expired} were too slow.`
      );
    default:
      return round.reported >= round.goal
        ? `The goal of ${round.goal} updates was met${slowest}; ${round.expired} clients were not waited for.`
        : `The deadline closed the round with ${round.reported} of ${round.goal} updates, ` +
            `enough for the minimum of ${round.minimum}.`;
  }
}
