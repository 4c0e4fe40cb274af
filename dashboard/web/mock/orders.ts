// The orders of the mock's lists, and its rounds played again with other deadlines.

import type { Client, Outlook, Round } from "../src/api/types";
import { sorted, type Value } from "../src/lib/sort";
import type { MockJob, World } from "./world";

const ROUND_FIGURES: Record<string, (round: Round) => Value> = {
  took: (round) => (round.ended_at_ms === undefined ? undefined : round.ended_at_ms - round.opened_at_ms),
  accuracy: (round) => round.accuracy,
  loss: (round) => round.loss,
  training_loss: (round) => round.training_loss,
  lost: (round) => round.rejected + round.failed + round.expired - (round.spare ?? 0),
  up: (round) => round.bytes_up,
};

const CLIENT_FIGURES: Record<string, (client: Client) => Value> = {
  number: (client) => client.number,
  last_seen: (client) => client.last_seen_at_ms,
  examples: (client) => client.examples,
  reported: (client) => client.reported,
  late: (client) => client.expired - (client.spare ?? 0),
  failed: (client) => client.failed,
  drop_rate: (client) => client.expired / Math.max(1, client.reported + client.expired + client.failed),
  work: (client) => client.work_ms_mean,
  up: (client) => client.bytes_up,
};

/** The rounds by a figure; undefined for one that is not known. */
export function roundsBy(rounds: readonly Round[], sort: string, descending: boolean): Round[] | undefined {
  const figure = ROUND_FIGURES[sort];
  return figure && sorted(rounds, figure, descending);
}

export function clientsBy(clients: readonly Client[], query: URLSearchParams): Client[] {
  const order = query.get("order") ?? "number";
  const usual = order === "number" ? "asc" : "desc";
  const figure = CLIENT_FIGURES[order] ?? CLIENT_FIGURES.number!;
  return sorted(clients, figure, (query.get("direction") ?? usual) === "desc");
}

/** The newest 20 rounds with other deadlines; those who never came are left out. */
export function outlookOf(world: World, job: MockJob, nowMs: number): Outlook {
  const opened = world.roundsOpened(job);
  const played = Array.from({ length: Math.min(20, opened) }, (_, index) =>
    world.round(job, opened - index, "train", nowMs),
  ).filter((entry) => entry !== undefined && entry.round.ended_at_ms !== undefined);
  const came = played.map((entry) =>
    entry!.assignments.flatMap(({ state, assigned_at_ms: from, ended_at_ms: to }) =>
      state === "reported" && to !== undefined ? [to - from] : [],
    ),
  );
  const [goal, minimum] = [played[0]?.round.goal ?? 1, played[0]?.round.minimum ?? 1];
  const longest = Math.max(1, ...came.flat());
  const steps = came.flat().length === 0 ? 0 : 40;
  const points = Array.from({ length: steps }, (_, step) => {
    const deadline = Math.ceil((longest / 4) * 8 ** (step / (steps - 1)));
    const reports = came.map((times) => times.filter((ms) => ms <= deadline).length);
    return {
      deadline_ms: deadline,
      reports: reports.reduce((sum, value) => sum + Math.min(goal, value), 0) / reports.length,
      reports_min: Math.min(...reports),
      abandoned: reports.filter((value) => value < minimum).length,
      lasts_ms: Math.min(deadline, longest),
    };
  });
  const suggested = points.find((point) => point.reports >= 0.95 * points.at(-1)!.reports)?.deadline_ms;
  return {
    rounds: played.length,
    abandoned: played.filter((entry) => entry!.round.phase === "abandoned").length,
    deadline_ms: points.at(-1)?.deadline_ms ?? longest,
    goal,
    minimum,
    censored: played.reduce((sum, entry) => sum + entry!.round.expired, 0),
    longest_ms: longest,
    points,
    ...(suggested === undefined ? {} : { suggested_ms: suggested }),
  };
}
