// The operator API over the made-up world, following the same contract as the coordinator.

import type {
  Assignment,
  AttributeName,
  AuditRow,
  ClassStats,
  ClientAssignment,
  Curve,
  CurvePoint,
  Job,
  JobDraft,
  JobSummary,
  MetricCurve,
  ModelVersion,
  Overview,
  Page,
  Population,
  Round,
  ShapeCount,
  System,
  Target,
  Task,
  Who,
} from "../src/api/types";
import { clientsBy, outlookOf, roundsBy } from "./orders";
import { detailOf, measuredOn } from "./plan";
import { digits, uniform } from "./random";
import { JOBS, jobFile, type MockJob, type World } from "./world";

export interface Answer {
  status: number;
  body: unknown;
  type?: string;
}

interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  body: string;
  nowMs: number;
}

const LIMIT = 100;

function ok(body: unknown, status = 200): Answer {
  return { status, body };
}

function problem(status: number, slug: string, title: string, detail: string): Answer {
  return {
    status,
    type: "application/problem+json",
    body: { type: `urn:tributary:problem:${slug}`, title, status, detail, request_id: `req_${digits(12, status)}` },
  };
}

const notFound = (what: string) => problem(404, "not-found", "Not found", `${what} does not exist`);

function paged<T>(items: readonly T[], query: URLSearchParams, key: (item: T) => string): Page<T> {
  const limit = Number(query.get("limit") ?? LIMIT);
  const after = query.get("after");
  const from = after === null ? 0 : items.findIndex((item) => key(item) === after) + 1;
  const page = items.slice(from, from + limit);
  const last = page.at(-1);
  return { items: page, ...(page.length === limit && last !== undefined ? { next: key(last) } : {}) };
}

export function answer(world: World, call: Call): Answer {
  const parts = call.path.split("/").filter(Boolean).map(decodeURIComponent);
  const [first, second, third] = parts;
  const { query, nowMs } = call;
  if (first === "overview") return ok(overview(world, query.get("archived") === "true", nowMs));
  if (first === "populations" && second === undefined && call.method === "POST") {
    world.addPopulation((JSON.parse(call.body) as { name: string }).name);
    return ok(populations(world).at(-1), 201);
  }
  if (first === "tokens" || first === "accounts") return world.access.answer(parts, call.method, call.body, nowMs);
  if (first === "populations" && second === undefined) return ok({ items: populations(world) });
  if (first === "releases" && second === undefined && call.method === "GET") return ok({ items: [] });
  if (first === "populations" && third === "attributes")
    return ok([
      { name: "app_version", values: 2 },
      { name: "platform", values: 3 },
      { name: "ram_class", values: 3 },
    ] satisfies AttributeName[]);
  if (first === "populations" && third === "classes") return ok(classes(world, second!, query.get("attribute") ?? ""));
  if (first === "clients") return clients(world, second, third, query, nowMs);
  if (first === "me")
    return ok({ name: "first operator", actor: `token_${digits(32, 9)}`, role: "admin" } satisfies Who);
  if (first === "system") return ok(system(world, nowMs));
  if (first === "nodes") return ok({ items: system(world, nowMs).nodes });
  if (first === "audit") return ok(audit(world, query));
  if (first === "jobs" && second === undefined && call.method === "POST") return createJob(world, call);
  if (first === "jobs" && second === undefined)
    return ok({ items: [...world.jobs.values()].map((job) => world.job(job, nowMs)) });
  const job = first === "jobs" ? world.jobs.get(second ?? "") : undefined;
  return job ? ofJob(world, job, parts.slice(2), call) : notFound(call.path);
}

/** The log with the conditions of the query; `*` in a text stands for any characters. */
function audit(world: World, query: URLSearchParams): Page<AuditRow> {
  const entries = world.audit.map(
    (entry, index): AuditRow => ({
      number: index + 1,
      actor: `token_${digits(32, 9)}`,
      label: "first operator",
      previous: "0".repeat(64),
      hash: "0".repeat(64),
      ...entry,
    }),
  );
  const fits = (name: string, ...texts: string[]) => {
    const wanted = query.get(name)?.toLowerCase().split("*").filter(Boolean);
    return !wanted || texts.some((text) => wanted.every((part) => text.toLowerCase().includes(part)));
  };
  const found = entries.filter(
    (entry) =>
      fits("action", entry.action) &&
      fits("person", entry.actor, entry.label) &&
      fits("subject", entry.subject) &&
      entry.at_ms >= Number(query.get("since_at_ms") ?? 0) &&
      entry.at_ms < Number(query.get("until_at_ms") ?? Number.POSITIVE_INFINITY),
  );
  return paged(
    found.toSorted((a, b) => b.at_ms - a.at_ms),
    query,
    (entry) => String(entry.number),
  );
}

function populations(world: World): Population[] {
  return world.populations.map((name) => ({
    name,
    clients: world.clients[name]!.length,
    online: Math.floor(world.clients[name]!.length / 3),
    working: Math.floor(world.clients[name]!.length / 8),
    created_at_ms: world.startedAtMs - 41 * 86_400_000,
  }));
}

function overview(world: World, archived: boolean, nowMs: number): Overview {
  const jobs = [...world.jobs.values()]
    .filter((job) => archived || job.filed.archivedAtMs === undefined)
    .map((job) => world.overview(job, nowMs))
    .map((entry) => (entry.job.state === "running" ? { ...entry, ...endsIn(entry.job) } : entry));
  const open = (state: string) => (state === "running" ? 0 : state === "stopped" || state === "completed" ? 2 : 1);
  jobs.sort((a, b) => open(a.job.state) - open(b.job.state) || b.job.created_at_ms - a.job.created_at_ms);
  return { version: "0.2.0", now_at_ms: nowMs, populations: populations(world), jobs };
}

/** Time until a job has its rounds, at 30 s each. */
function endsIn({ rounds_committed: done, stop }: Pick<JobSummary, "rounds_committed" | "stop">) {
  return stop?.rounds === undefined ? {} : { ends_in_ms: Math.max(0, stop.rounds - done) * 30_000 };
}

/** A job with its progress. */
function detail(world: World, job: MockJob, nowMs: number): Job {
  const shown = world.job(job, nowMs);
  const overview = world.overview(job, nowMs);
  const { accuracy, loss, best_accuracy: best, best_round: round, bytes_up, bytes_down } = overview;
  const progress = {
    bytes_up,
    bytes_down,
    ...(accuracy === undefined ? {} : { accuracy, measured_on: measuredOn(accuracy), loss: loss! }),
    ...(best === undefined
      ? {}
      : { best: { version: round!, round: round!, accuracy: best, measured_on: measuredOn(best) } }),
    ...(job.state === "running" ? endsIn({ rounds_committed: shown.rounds_committed, stop: job.stop }) : {}),
  };
  return { ...shown, progress, health: overview.health };
}

function ofJob(world: World, job: MockJob, parts: string[], call: Call): Answer {
  const { method, query, nowMs } = call;
  const [what, number, more] = parts;
  const task = (query.get("task") ?? "train") as Task;
  if (what === undefined && method === "PATCH") {
    const { archived, ...change } = JSON.parse(call.body) as {
      archived?: boolean;
      tags?: string[];
      notes?: string;
      name?: string;
    };
    world.file(
      job,
      { ...change, ...(archived === undefined ? {} : { archivedAtMs: archived ? nowMs : undefined! }) },
      nowMs,
    );
    return ok(world.job(job, nowMs));
  }
  if (what === undefined && method === "DELETE") {
    world.remove(job, nowMs);
    return { status: 204, body: undefined };
  }
  if (what === undefined) return ok(detail(world, job, nowMs));
  if (method === "POST" && (what === "pause" || what === "resume" || what === "stop")) {
    const from = { pause: ["running"], resume: ["paused"], stop: ["running", "paused", "awaiting_model"] }[what];
    const to = ({ pause: "paused", resume: "running", stop: "stopped" } as const)[what];
    if (job.state !== to && !from.includes(job.state))
      return problem(
        409,
        "wrong-state",
        "Not possible in the present state",
        `a job that is ${job.state} cannot become ${to}`,
      );
    if (job.state !== to) world.move(job, to, nowMs);
    return ok(world.job(job, nowMs));
  }
  if (method === "PATCH" && what === "round-policy") {
    const policy = JSON.parse(call.body) as { updates_goal?: number; updates_min?: number };
    const [goal, minimum] = [policy.updates_goal ?? job.rules.goal, policy.updates_min ?? job.rules.minimum];
    if (minimum > goal || minimum < 1)
      return problem(
        422,
        "job-file-invalid",
        "The job file is not valid",
        "[round] updates_min must be at least 1 and at most the goal",
      );
    world.setPolicy(job, policy, nowMs);
    return ok(world.job(job, nowMs));
  }
  if (what === "file") return { status: 200, type: "application/toml", body: job.text };
  if (what === "stale-clients") return ok([]);
  if (what === "outlook") return ok(outlookOf(world, job, nowMs));
  if (what === "curve") return ok(curve(world, job, Number(query.get("points") ?? 400), nowMs));
  if (what === "metric-curves") return ok(metricCurves(world, job, nowMs));
  if (what === "shapes") return ok(shapes(world, job, Number(query.get("rounds") ?? 100), nowMs));
  if (what === "metrics") return { status: 200, type: "text/csv", body: "round,accuracy\n1,0.1\n" };
  if (what === "models" && more === "pin") {
    if (method === "PUT") job.pinned.add(Number(number));
    else job.pinned.delete(Number(number));
    return ok(versionOf(world, job, Number(number), nowMs));
  }
  if (what === "models" && method === "PUT") {
    if (job.state !== "awaiting_model")
      return problem(409, "wrong-state", "Not possible in the present state", "this job has its first model");
    world.move(job, "running", nowMs);
    return ok(world.job(job, nowMs));
  }
  if (what === "models" && number === undefined) return ok(models(world, job, query, nowMs));
  if (what === "models")
    return { status: 200, type: "application/octet-stream", body: safetensors(job.rules.parameters) };
  if (what === "rounds" && number === undefined) return ok(rounds(world, job, task, query, nowMs));
  if (what === "rounds") {
    const found = world.round(job, Number(number), task, nowMs);
    if (!found) return notFound(`round ${number}`);
    if (more === undefined)
      return ok(
        detailOf(found, task === "train" ? world.round(job, Number(number), "evaluate", nowMs)?.round : undefined),
      );
    const state = query.get("state");
    return ok(
      paged(
        found.assignments.filter((entry) => !state || entry.state === state),
        query,
        (entry) => String(entry.client_number),
      ),
    );
  }
  return notFound(call.path);
}

function rounds(world: World, job: MockJob, task: Task, query: URLSearchParams, nowMs: number): Page<Round> {
  const limit = Number(query.get("limit") ?? LIMIT);
  const forward = query.get("order") !== "desc";
  const sort = query.get("sort");
  if (sort) {
    const rest = new URLSearchParams({ task, limit: "100000" });
    const all = roundsBy(rounds(world, job, task, rest, nowMs).items, sort, !forward);
    if (all) return paged(all, query, (round) => String(round.number));
  }
  const after = query.get("after");
  const step = forward ? 1 : -1;
  const items: Round[] = [];
  const most = world.roundsOpened(job);
  let number = after === null ? (forward ? 1 : most) : Number(after) + step;
  for (; number >= 1 && number <= most && items.length < limit; number += step) {
    const round = world.round(job, number, task, nowMs)?.round;
    const fits =
      round &&
      [
        ["phase", round.phase],
        ["reason", round.reason],
      ].every(([name, value]) => !query.get(name!) || query.get(name!) === value);
    if (fits) items.push(round);
  }
  return { items, ...(items.length === limit ? { next: String(items.at(-1)!.number) } : {}) };
}

function curve(world: World, job: MockJob, wanted: number, nowMs: number): Curve {
  const opened = world.roundsOpened(job);
  const points: CurvePoint[] = [];
  const targets: Target[] = [];
  const aims = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
  let [clients, up, down] = [0, 0, 0];
  for (let number = 1; number <= opened; number += 1) {
    const round = world.point(job, number, nowMs);
    if (!round || round.ended_at_ms === undefined) continue;
    clients += round.clients_ms ?? 0;
    up += round.bytes_up;
    down += round.bytes_down;
    const { accuracy, loss, training_loss } = round;
    const wall = round.ended_at_ms - job.createdAtMs;
    points.push({
      round: number,
      at_ms: round.ended_at_ms,
      wall_ms: wall,
      clients_ms: clients,
      bytes_up: up,
      bytes_down: down,
      reported: round.reported,
      cohort: round.cohort,
      abandoned: round.phase === "abandoned",
      ...(accuracy === undefined ? {} : { accuracy, measured_on: measuredOn(accuracy), loss: loss! }),
      ...(training_loss === undefined ? {} : { training_loss }),
    });
    while (aims[0] !== undefined && (accuracy ?? 0) >= aims[0])
      targets.push({
        accuracy: aims.shift()!,
        round: number,
        at_ms: round.ended_at_ms,
        clients_ms: clients,
        bytes_up: up,
      });
  }
  const every = Math.max(1, Math.ceil(points.length / wanted));
  const drawn = points.filter((_, index) => index % every === 0 || index === points.length - 1);
  return { points: drawn, rounds: points.length, targets, marks: job.marks };
}

/** The AUC of the job that runs live; other jobs have no metrics of their own. */
function metricCurves(world: World, job: MockJob, nowMs: number): MetricCurve[] {
  if (job.id !== JOBS.live) return [];
  const points = curve(world, job, 400, nowMs)
    .points.filter(({ accuracy }) => accuracy !== undefined)
    .map(({ round, at_ms, accuracy }) => {
      const mean = 0.5 + 0.5 * accuracy!;
      return {
        name: "auc",
        round,
        at_ms,
        mean,
        p50: mean,
        p10: mean - 0.06,
        p90: mean + 0.01,
        min: 0,
        max: 1,
        reports: 2,
      };
    });
  return [{ name: "auc", task: "evaluate", rounds: points.length, points }];
}

function shapes(world: World, job: MockJob, last: number, nowMs: number): ShapeCount[] {
  const opened = world.roundsOpened(job);
  const found = Array.from(
    { length: Math.min(last, opened) },
    (_, index) => world.round(job, opened - index, "train", nowMs)?.assignments ?? [],
  ).flat();
  return countShapes(found);
}

function countShapes(found: readonly Assignment[]): ShapeCount[] {
  const counts = new Map<string, number>();
  for (const { shape } of found) if (shape) counts.set(shape, (counts.get(shape) ?? 0) + 1);
  return [...counts].map(([shape, count]) => ({ shape, count }));
}

function models(world: World, job: MockJob, query: URLSearchParams, nowMs: number): Page<ModelVersion> {
  const { model_version: newest } = world.job(job, nowMs);
  const limit = Number(query.get("limit") ?? LIMIT);
  const from = Number(query.get("after") ?? 0);
  const items = Array.from(
    { length: newest === undefined ? 0 : Math.max(0, Math.min(limit, newest + 1 - from)) },
    (_, index) => versionOf(world, job, from + index, nowMs),
  );
  return { items, ...(items.length === limit ? { next: String(from + limit) } : {}) };
}

function versionOf(world: World, job: MockJob, version: number, nowMs: number): ModelVersion {
  const newest = world.job(job, nowMs).model_version ?? 0;
  const pinned = job.pinned.has(version);
  const deleted = !pinned && newest - version > 60 && version % 10 !== 0;
  return {
    version,
    ...(version > 0 ? { round: version } : {}),
    ...world.measured(job, version, nowMs),
    best: version > 0 && world.overview(job, nowMs).best_round === version,
    ...(pinned ? { pinned_at_ms: nowMs - 3_600_000 } : {}),
    sha256: digits(64, job.rules.seed, version),
    bytes: job.rules.parameters * 4 + 512,
    created_at_ms: job.createdAtMs + version * job.everyMs,
    ...(deleted ? { deleted_at_ms: nowMs - 3_600_000 } : {}),
  };
}

/** A file with a header for this many numbers, and none of them. */
function safetensors(parameters: number): string {
  const header = JSON.stringify({ weight: { dtype: "F32", shape: [parameters], data_offsets: [0, parameters * 4] } });
  return `${String.fromCharCode(header.length)}${"\0".repeat(7)}${header}`;
}

function clients(
  world: World,
  id: string | undefined,
  more: string | undefined,
  query: URLSearchParams,
  nowMs: number,
): Answer {
  if (id === undefined) {
    const population = query.get("population") ?? "";
    const search = (query.get("search") ?? "").toLowerCase();
    const all = (world.clients[population] ?? []).map((client) => world.client(population, client));
    const found = all.filter(
      (client) =>
        !search ||
        String(client.number) === search ||
        client.id.includes(search) ||
        Object.values(client.attributes).some((value) => value.includes(search)),
    );
    return ok(paged(clientsBy(found, query), query, (client) => String(client.number)));
  }
  const found = world.findClient(id);
  if (!found) return notFound(id);
  if (more === undefined) return ok(world.client(found.population, found.client));
  const history = [...world.jobs.values()]
    .filter((job) => job.population === found.population)
    .flatMap((job) => {
      const opened = world.roundsOpened(job);
      return Array.from({ length: Math.min(60, opened) }, (_, index) => opened - index).flatMap((number) => {
        const entry = world.round(job, number, "train", nowMs)?.assignments.find(({ client }) => client === id);
        const about = { job: job.id, round: number, task: "train" } as const;
        return entry ? [{ ...entry, ...about } satisfies ClientAssignment] : [];
      });
    });
  return ok(
    paged(
      history.sort((a, b) => b.assigned_at_ms - a.assigned_at_ms),
      query,
      (entry) => entry.id,
    ),
  );
}

function classes(world: World, population: string, attribute: string): ClassStats[] {
  const groups = new Map<string, ReturnType<World["client"]>[]>();
  for (const client of world.clients[population] ?? []) {
    const value = client.attributes[attribute] ?? "";
    groups.set(value, [...(groups.get(value) ?? []), world.client(population, client)]);
  }
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([value, members]) => {
      const sum = (of: (client: (typeof members)[number]) => number) =>
        members.reduce((total, client) => total + of(client), 0);
      const [reported, rejected, failed, expired] = [
        sum((c) => c.reported),
        sum((c) => c.rejected ?? 0),
        sum((c) => c.failed),
        sum((c) => c.expired),
      ];
      const work = members.map((client) => client.work_ms_mean!).sort((a, b) => a - b);
      const assigned = reported + rejected + failed + expired;
      return {
        value,
        clients: members.length,
        assigned,
        reported,
        rejected,
        failed,
        expired,
        drop_rate: (assigned - reported) / assigned,
        counted_rate: reported / assigned,
        verdict: "fair" as const,
        work_ms_p50: work[Math.floor(work.length / 2)]!,
        work_ms_p90: work[Math.floor(work.length * 0.9)]!,
        shapes: [
          { shape: "cadtu+", count: reported },
          { shape: "cad.", count: Math.ceil(expired / 2) },
          { shape: "cadtu.~", count: Math.floor(expired / 2) },
          { shape: "cadi", count: failed },
          { shape: "cadtu!", count: rejected },
        ].filter(({ count }) => count > 0),
      };
    });
}

function system(world: World, nowMs: number): System {
  const lease = (job: string) => ({ job, token: 3, expires_at_ms: nowMs + 7_000 });
  const schedule = (name: string, cron: string, agoMs: number, outcome: string) => ({
    name,
    cron,
    time_zone: "UTC",
    next_at_ms: nowMs + (agoMs < 3_600_000 ? 3_600_000 : 86_400_000) - agoMs,
    last: { started_at_ms: nowMs - agoMs, node: "north", ended_at_ms: nowMs - agoMs + 800, failed: false, outcome },
  });
  return {
    version: "0.2.0",
    started_at_ms: world.startedAtMs - 86_400_000 * 3,
    engine: "postgres",
    nodes: [
      {
        id: "north",
        version: "0.2.0",
        started_at_ms: world.startedAtMs - 86_400_000 * 3,
        seen_at_ms: nowMs - 900,
        state: "alive",
        leases: [lease(JOBS.live), lease(JOBS.long)],
        shards: [
          { job: JOBS.long, shard: 0 },
          { job: JOBS.long, shard: 2 },
        ],
        url: "https://north.example.org:7300",
      },
      {
        id: "south",
        version: "0.2.0",
        started_at_ms: world.startedAtMs - 7_200_000,
        seen_at_ms: nowMs - 2_100,
        state: "alive",
        leases: [lease(JOBS.flaky)],
        shards: [{ job: JOBS.long, shard: 1 }],
        url: "https://south.example.org:7300",
      },
      {
        id: "west",
        version: "0.1.0",
        started_at_ms: world.startedAtMs - 86_400_000 * 9,
        seen_at_ms: nowMs - 300_000,
        state: "dead",
        leases: [],
      },
    ],
    checkins_per_s: 41.3,
    held_clients: 218,
    online_clients: 318,
    working_clients: 100,
    updates_per_s: 1.7,
    history: Array.from({ length: 120 }, (_, index) => ({
      at_ms: nowMs - (119 - index) * 30_000,
      checkins_per_s: 40 + 12 * Math.sin(index / 9) + uniform(7, index),
      updates_per_s: index < 30 ? 0 : 1.5 + uniform(8, index),
      memory_bytes: 61_000_000 + index * 30_000 + 4_000_000 * uniform(9, index),
      database_bytes: 150_000_000 + index * 280_000,
    })),
    updates_in_flight: 4,
    db: { read_ms_p50: 0.4, read_ms_p99: 3.1, write_ms_p50: 1.8, write_ms_p99: 12.4 },
    storage: { database_bytes: 184_000_000, models_bytes: 6_650_000_000, updates_bytes: 92_000_000 },
    schedules: [
      schedule("retention", "17 * * * *", 1_200_000, "40 model versions and 12,000 events deleted"),
      schedule("upkeep", "40 3 * * *", 40_000_000, "3 tokens expired, 1,200 pages freed"),
    ],
  };
}

function createJob(world: World, { query, body, nowMs }: Call): Answer {
  const value = (key: string) => new RegExp(`^${key}\\s*=\\s*"([^"]*)"`, "m").exec(body)?.[1];
  const lines = body.split("\n");
  const broken = lines.findIndex((line) => line.trim() !== "" && !/[=#[\]{}]/.test(line));
  if (broken >= 0)
    return problem(
      422,
      "job-file-invalid",
      "The job file is not valid",
      [
        `not a job file: TOML parse error at line ${broken + 1}, column 1`,
        "  |",
        `${broken + 1} | ${lines[broken]}`,
        "  | ^",
        "key with no value, expected `=`",
      ].join("\n"),
    );
  const [name, population] = [value("name"), value("population")];
  if (!name || !population)
    return problem(
      422,
      "job-file-invalid",
      "The job file is not valid",
      `not a job file: missing field \`${name ? "population" : "name"}\``,
    );
  if (!world.populations.includes(population))
    return problem(404, "not-found", "Not found", `population ${population}; create it first`);
  if ([...world.jobs.values()].some((job) => job.name === name && job.population === population))
    return problem(409, "name-taken", "The name is taken", `population ${population} has a job called ${name}`);
  if (query.get("dry_run") === "true") {
    const toml = `${body.trimEnd()}\n\n[update]\ncodec = "int8"\nweight_max = 10000\n`;
    const layers = [
      { kind: "linear", output: [64], parameters: 4160 },
      { kind: "relu", output: [64], parameters: 0 },
      { kind: "linear", output: [10], parameters: 650 },
    ];
    return ok({ job: jobFile(name, population), toml, parameters: 4810, layers } satisfies JobDraft);
  }
  return ok(world.job(world.create(name, population, body, nowMs), nowMs), 201);
}
