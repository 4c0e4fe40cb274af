// A made-up coordinator: jobs, clients and rounds that continue in real time.

import type {
  Assignment,
  AuditEntry,
  AuditRow,
  Client,
  CurveMark,
  FeedEvent,
  Health,
  Job,
  JobDraft,
  JobOverview,
  JobState,
  MeasuredOn,
  RoundPolicy,
  SparkPoint,
  Task,
} from "../src/api/types";
import { MockAccess } from "./access";
import { at, type JobRules, type MockClient, measuredOn, type PlannedRound, plan, sketch } from "./plan";
import { digits, uniform } from "./random";

export interface MockJob {
  id: string;
  name: string;
  population: string;
  state: JobState;
  createdAtMs: number;
  endedAtMs?: number;
  rules: JobRules;
  stop: { rounds?: number; accuracy?: number };
  /** Rounds of the past, which follow each other evenly. */
  history: number;
  everyMs: number;
  /** Rounds since the mock was started: when each was opened. */
  opened: number[];
  notBeforeMs?: number;
  text: string;
  filed: Filed;
  /** Pinned versions. */
  pinned: Set<number>;
  /** Pauses and changes. */
  marks: CurveMark[];
}

/** How an operator files a job. */
export interface Filed {
  tags: string[];
  notes: string;
  archivedAtMs?: number;
}

interface LoggedEvent {
  id: number;
  event: FeedEvent;
}

const EVENTS_KEPT = 2_000;
const MINUTE = 60_000;

export const JOBS = {
  live: `job_${digits(32, 1)}`,
  long: `job_${digits(32, 2)}`,
  paused: `job_${digits(32, 3)}`,
  done: `job_${digits(32, 4)}`,
  waiting: `job_${digits(32, 5)}`,
  flaky: `job_${digits(32, 6)}`,
};

const TAGS: Partial<Record<keyof typeof JOBS, string[]>> = {
  live: ["baseline", "paper"],
  long: ["production"],
  done: ["baseline"],
};

function mark(createdAtMs: number, round: number, everyMs: number, became: string): CurveMark {
  const wall = (round + 0.5) * everyMs;
  const cause = became === "running" ? "round_policy" : "operator";
  return { at_ms: createdAtMs + wall, wall_ms: wall, round, became, cause };
}

export class World {
  readonly populations: string[] = [];
  readonly clients: Record<string, MockClient[]> = {};
  readonly jobs = new Map<string, MockJob>();
  readonly events: LoggedEvent[] = [];
  readonly listeners = new Set<(entry: LoggedEvent) => void>();
  readonly access: MockAccess;
  readonly audit: Omit<AuditRow, "number" | "actor" | "label" | "previous" | "hash">[] = [];
  private readonly plans = new Map<string, PlannedRound>();
  private readonly told = new Map<string, string>();
  private eventId = 0;

  constructor(
    readonly startedAtMs: number,
    { rounds = 10_000, clients = 500, empty = false } = {},
  ) {
    this.access = new MockAccess(startedAtMs);
    if (empty) return;
    this.populations.push("demo", "keyboard");
    this.clients.demo = fleet(1, 24);
    this.clients.keyboard = fleet(2, clients);
    const rules = (seed: number, more: Partial<JobRules>): JobRules => ({
      seed,
      goal: 10,
      minimum: 5,
      overSelection: 1.3,
      deadlineMs: 20_000,
      selectMs: 2_000,
      trainMs: 4_000,
      parameters: 4_810,
      ceiling: 0.975,
      pace: 6,
      failing: 0.05,
      ...more,
    });
    this.add("live", "digits", "demo", "running", rules(1, {}), { rounds: 500, accuracy: 0.98 }, 37, 30_000);
    this.add(
      "long",
      "next-word",
      "keyboard",
      "running",
      rules(2, {
        goal: 60,
        minimum: 40,
        deadlineMs: 4 * MINUTE,
        selectMs: 4_000,
        trainMs: 55_000,
        parameters: 1_663_370,
        ceiling: 0.62,
        pace: rounds / 6,
        failing: 0.06,
      }),
      {},
      rounds,
      5 * MINUTE,
    );
    this.add(
      "flaky",
      "wake-word",
      "keyboard",
      "running",
      rules(6, {
        goal: 20,
        minimum: 17,
        deadlineMs: MINUTE,
        trainMs: 24_000,
        pace: 40,
        failing: 0.16,
        parameters: 250_858,
      }),
      { accuracy: 0.98 },
      180,
      2 * MINUTE,
    );
    this.add("paused", "noise-filter", "keyboard", "paused", rules(3, { pace: 20 }), { rounds: 200 }, 42, 3 * MINUTE);
    this.add("waiting", "own-network", "keyboard", "awaiting_model", rules(5, {}), {}, 0, MINUTE);
    this.add("done", "digits-baseline", "demo", "completed", rules(4, { pace: 5 }), { rounds: 30 }, 30, MINUTE);
    this.audit.push(
      { at_ms: startedAtMs - 40 * MINUTE, action: "job.pause", subject: JOBS.paused },
      {
        at_ms: startedAtMs - 90 * MINUTE,
        action: "token.create",
        subject: `token_${digits(32, 77)}`,
        detail: "enrolment token of keyboard",
      },
      {
        at_ms: startedAtMs - 4 * MINUTE,
        action: "client.enrol",
        subject: "client 212",
        population: "demo",
        folded: { entries: 41, first_at_ms: startedAtMs - 200 * MINUTE },
      },
    );
    this.tick(startedAtMs);
  }

  private add(
    key: keyof typeof JOBS,
    name: string,
    population: string,
    state: JobState,
    rules: JobRules,
    stop: MockJob["stop"],
    history: number,
    everyMs: number,
  ): void {
    const pastMs = state === "running" ? 0 : 3 * 3600_000;
    const createdAtMs = this.startedAtMs - history * everyMs - pastMs - MINUTE;
    const ended = state === "completed" ? { endedAtMs: this.startedAtMs - pastMs } : {};
    const id = JOBS[key];
    this.jobs.set(id, {
      id,
      name,
      population,
      state,
      createdAtMs,
      ...ended,
      rules,
      stop,
      history,
      everyMs,
      opened: [],
      text: jobText(name, population, rules, stop),
      filed: { tags: TAGS[key] ?? [], notes: key === "live" ? "Baseline for the paper.\nSeed 7, as in table 2." : "" },
      pinned: new Set(key === "live" ? [9, 17] : []),
      marks:
        key === "live" ? [mark(createdAtMs, 12, everyMs, "paused"), mark(createdAtMs, 24, everyMs, "running")] : [],
    });
  }

  create(name: string, population: string, text: string, nowMs: number): MockJob {
    const seed = 100 + this.jobs.size;
    const rules: JobRules = {
      seed,
      goal: 6,
      minimum: 3,
      overSelection: 1.3,
      deadlineMs: 20_000,
      selectMs: 1_500,
      trainMs: 3_000,
      parameters: 4_810,
      ceiling: 0.97,
      pace: 5,
      failing: 0.05,
    };
    const job: MockJob = {
      id: `job_${digits(32, seed)}`,
      name,
      population,
      state: "running",
      createdAtMs: nowMs,
      rules,
      stop: { rounds: 30 },
      history: 0,
      everyMs: MINUTE,
      opened: [],
      text,
      filed: { tags: [], notes: "" },
      pinned: new Set(),
      marks: [],
    };
    this.jobs.set(job.id, job);
    this.tell({ at_ms: nowMs, job: job.id, became: "running" });
    this.note("job.create", job.id, nowMs, name);
    this.tick(nowMs);
    return job;
  }

  move(job: MockJob, state: JobState, nowMs: number): void {
    job.state = state;
    if (state === "stopped") job.endedAtMs = nowMs;
    this.tell({ at_ms: nowMs, job: job.id, became: state, cause: "operator" });
    this.note(state === "paused" ? "job.pause" : state === "running" ? "job.resume" : "job.stop", job.id, nowMs);
  }

  setPolicy(job: MockJob, policy: Partial<RoundPolicy>, nowMs: number): void {
    const { updates_goal: goal, updates_min: minimum, over_selection: overSelection, deadline_ms: deadlineMs } = policy;
    const given = Object.entries({ goal, minimum, overSelection, deadlineMs }).filter(
      ([, value]) => value !== undefined,
    );
    job.rules = { ...job.rules, ...Object.fromEntries(given) };
    job.text = jobText(job.name, job.population, job.rules, job.stop);
    this.note("job.round_policy", job.id, nowMs, JSON.stringify(policy));
  }

  /** Changes how a job is filed; what is not named stays. */
  file(job: MockJob, change: Partial<Filed> & { name?: string }, nowMs: number): void {
    const { name, ...filed } = change;
    job.filed = { ...job.filed, ...filed };
    if (name) job.name = name;
    this.tell({ at_ms: nowMs, job: job.id, became: job.state, cause: "filing" });
    this.note("job.change", job.id, nowMs, JSON.stringify(change));
  }

  remove(job: MockJob, nowMs: number): void {
    this.jobs.delete(job.id);
    this.note("job.delete", job.id, nowMs, `${job.population}/${job.name}`);
  }

  addPopulation(name: string): void {
    this.populations.push(name);
    this.clients[name] = [];
  }

  note(action: AuditEntry["action"], subject: string, atMs: number, detail?: string): void {
    this.audit.push({ at_ms: atMs, action, subject, ...(detail === undefined ? {} : { detail }) });
  }

  roundsOpened(job: MockJob): number {
    return job.history + job.opened.length;
  }

  /** A round as it will have been. Its plan is made once, with the rules of that time. */
  private planned(job: MockJob, number: number, task: Task): PlannedRound {
    const key = `${job.id}/${task}/${number}`;
    let planned = this.plans.get(key);
    if (!planned) {
      const training =
        number <= job.history ? job.createdAtMs + (number - 1) * job.everyMs : job.opened[number - job.history - 1]!;
      const openedAtMs = task === "train" ? training : this.planned(job, number, "train").endMs + 200;
      planned = plan(job.rules, this.clients[job.population]!, number, task, openedAtMs);
      this.plans.set(key, planned);
    }
    return planned;
  }

  /** A round as it stands now. */
  round(job: MockJob, number: number, task: Task, nowMs: number): PlannedRound | undefined {
    if (number < 1 || number > this.roundsOpened(job)) return undefined;
    const planned = this.planned(job, number, task);
    if (planned.round.opened_at_ms > nowMs) return undefined;
    if (task === "evaluate")
      return this.planned(job, number, "train").round.phase === "committed" ? at(planned, nowMs) : undefined;
    const now = at(planned, nowMs);
    // What a round reached is known once its evaluation has ended.
    if (now.round.phase !== "committed" || this.planned(job, number, "evaluate").endMs <= nowMs) return now;
    const { accuracy: _accuracy, measured_on: _on, loss: _loss, ...round } = now.round;
    return { ...now, round };
  }

  /** What a curve needs of a round. */
  point(job: MockJob, number: number, nowMs: number): ReturnType<typeof sketch> | undefined {
    if (job.history < 1000 || number > job.history) return this.round(job, number, "train", nowMs)?.round;
    return sketch(job.rules, number, job.createdAtMs + (number - 1) * job.everyMs);
  }

  /** Opens the rounds that are due and sends events for the changes. */
  tick(nowMs: number): void {
    for (const job of this.jobs.values()) {
      const last = this.round(job, this.roundsOpened(job), "train", nowMs)?.round;
      const over = !last || last.ended_at_ms !== undefined;
      const pauseMs = last?.phase === "abandoned" ? 15_000 : 1_200;
      const dueMs = last ? Math.max((last.ended_at_ms ?? 0) + pauseMs, this.startedAtMs) : nowMs;
      delete job.notBeforeMs;
      if (job.state === "running" && over) {
        if (nowMs >= dueMs) job.opened.push(nowMs);
        else if (last?.phase === "abandoned") job.notBeforeMs = dueMs;
      }
      this.tellChanges(job, nowMs);
    }
  }

  private tellChanges(job: MockJob, nowMs: number): void {
    for (
      let number = Math.max(job.history + 1, this.roundsOpened(job) - 1);
      number <= this.roundsOpened(job);
      number += 1
    ) {
      for (const task of ["train", "evaluate"] as const) {
        const now = this.round(job, number, task, nowMs);
        if (!now) continue;
        const about = { at_ms: nowMs, job: job.id, round: number, task };
        this.once(`${job.id}/${task}/${number}`, now.round.phase, () =>
          this.tell({ ...about, became: now.round.phase, ...(now.round.reason ? { cause: now.round.reason } : {}) }),
        );
        for (const entry of now.assignments) {
          this.once(entry.id, entry.state, () =>
            this.tell({
              ...about,
              assignment: entry.id,
              became: entry.state,
              ...(entry.reason ? { cause: entry.reason } : {}),
            }),
          );
        }
      }
    }
  }

  private once(key: string, value: string, act: () => void): void {
    if (this.told.get(key) === value) return;
    this.told.set(key, value);
    act();
  }

  private tell(event: Omit<FeedEvent, "sequence">): void {
    this.eventId += 1;
    const entry = { id: this.eventId, event: { sequence: this.eventId, ...event } };
    this.events.push(entry);
    if (this.events.length > EVENTS_KEPT) this.events.shift();
    for (const listener of this.listeners) listener(entry);
  }

  job(job: MockJob, nowMs: number): Job {
    const { rules } = job;
    const last = this.round(job, this.roundsOpened(job), "train", nowMs)?.round;
    const opened = this.roundsOpened(job);
    const abandoned = this.abandoned(job, nowMs);
    const committed = opened - abandoned - (last && last.ended_at_ms === undefined ? 1 : 0);
    return {
      id: job.id,
      plan_hash: digits(64, rules.seed, 3),
      state: job.state,
      parameters: rules.parameters,
      rounds_opened: opened,
      rounds_committed: committed,
      created_at_ms: job.createdAtMs,
      ...(job.state === "awaiting_model" ? {} : { model_version: committed }),
      ...(job.endedAtMs === undefined ? {} : { ended_at_ms: job.endedAtMs }),
      ...(job.notBeforeMs === undefined ? {} : { rounds_not_before_ms: job.notBeforeMs }),
      ...(job.filed.archivedAtMs === undefined ? {} : { archived_at_ms: job.filed.archivedAtMs }),
      tags: job.filed.tags,
      notes: job.filed.notes,
      file: {
        ...jobFile(job.name, job.population),
        stop: job.stop,
        evaluation: {},
        round: {
          updates_goal: rules.goal,
          updates_min: rules.minimum,
          over_selection: rules.overSelection,
          available_min: 0,
          selection_timeout_ms: 300_000,
          deadline_ms: rules.deadlineMs,
          backoff_ms: 1000,
          backoff_max_ms: 600_000,
        },
      },
    };
  }

  /** The accuracy of a version, as a curve has it. */
  measured(
    job: MockJob,
    version: number,
    nowMs: number,
  ): { accuracy?: number; measured_on?: MeasuredOn; loss?: number } {
    const { accuracy, loss } = (version > 0 && this.point(job, version, nowMs)) || {};
    return accuracy === undefined ? {} : { accuracy, measured_on: measuredOn(accuracy), loss: loss! };
  }

  private abandoned(job: MockJob, nowMs: number): number {
    // Only the flaky job abandons rounds often enough to be worth counting.
    if (job.id !== JOBS.flaky) return 0;
    let sum = 0;
    for (let number = 1; number <= this.roundsOpened(job); number += 1)
      if (this.round(job, number, "train", nowMs)?.round.phase === "abandoned") sum += 1;
    return sum;
  }

  overview(job: MockJob, nowMs: number): JobOverview {
    const { file, plan_hash: _hash, ...view } = this.job(job, nowMs);
    const opened = this.roundsOpened(job);
    const recent = (["train", "evaluate"] as const).flatMap((task) =>
      [opened - 1, opened].map((number) => this.round(job, number, task, nowMs)).filter((found) => found !== undefined),
    );
    const isOpen = ({ round }: PlannedRound) => round.ended_at_ms === undefined;
    const open = recent
      .filter(isOpen)
      .map(({ round, assignments }) => ({ ...round, cells: assignments.slice(0, 500).map(cell) }));
    const last = recent.filter((entry) => !isOpen(entry) && entry.round.task === "train").at(-1)?.round;
    const step = Math.max(1, Math.floor(opened / 60));
    const spark = Array.from({ length: Math.min(60, opened) }, (_, index) =>
      this.point(job, opened - (Math.min(60, opened) - 1 - index) * step, nowMs),
    )
      .filter((round) => round?.accuracy !== undefined)
      .map((round) => round!)
      .map((round): SparkPoint => [round.number, round.accuracy ?? null, round.loss ?? null]);
    const now = spark.at(-1);
    return {
      health: healthOf(job),
      job: {
        ...view,
        name: file.name,
        population: file.population,
        codec: "int8",
        learning_rate: 0.2,
        stop: job.stop,
      },
      open_rounds: open,
      ...(last ? { last_round: last } : {}),
      ...(now
        ? {
            accuracy: now[1]!,
            measured_on: measuredOn(now[1]!),
            loss: now[2]!,
            best_accuracy: bestOf(spark)[1]!,
            best_measured_on: measuredOn(bestOf(spark)[1]!),
            best_round: bestOf(spark)[0],
          }
        : {}),
      bytes_up: (last?.bytes_up ?? 0) * opened,
      bytes_down: (last?.bytes_down ?? 0) * opened,
      spark,
    };
  }

  client(population: string, client: MockClient): Client {
    const drawn = Math.floor(40 + 60 * uniform(client.number, 5));
    const expired = Math.round(drawn * Math.min(0.7, 0.04 * client.speed ** 2));
    const failed = Math.round(drawn * 0.05);
    return {
      id: client.id,
      number: client.number,
      population,
      attributes: client.attributes,
      examples: client.examples,
      created_at_ms: this.startedAtMs - 86_400_000 * (40 - (client.number % 40)),
      last_seen_at_ms: this.startedAtMs - Math.floor(uniform(client.number, 8) ** 3 * 86_400_000),
      reported: drawn - expired - failed,
      expired,
      failed,
      online: client.number % 3 === 0,
      rejected: client.number % 17 === 0 ? 2 : 0,
      bytes_up: (drawn - expired) * 1_700_000,
      bytes_down: drawn * 2_600_000,
      work_ms_mean: Math.round(55_000 * client.speed),
    };
  }

  findClient(id: string): { population: string; client: MockClient } | undefined {
    for (const population of this.populations) {
      const client = this.clients[population]!.find((entry) => entry.id === id);
      if (client) return { population, client };
    }
    return undefined;
  }
}

function bestOf(spark: readonly SparkPoint[]): SparkPoint {
  return spark.reduce((a, b) => (b[1]! > a[1]! ? b : a));
}

function cell({ client_number: number, state, reason }: Assignment) {
  return { number, state, ...(reason ? { reason } : {}) };
}

function fleet(seed: number, size: number): MockClient[] {
  return Array.from({ length: size }, (_, index) => {
    const draw = uniform(seed, index, 1);
    const ram = draw < 0.3 ? "low" : draw < 0.75 ? "mid" : "high";
    const platform = uniform(seed, index, 2) < 0.7 ? "android" : uniform(seed, index, 3) < 0.8 ? "ios" : "linux";
    return {
      id: `client_${digits(32, seed, index)}`,
      number: index + 1,
      speed: { low: 2.3, mid: 1.2, high: 0.8 }[ram] * (0.8 + 0.4 * uniform(seed, index, 4)),
      attributes: { platform, ram_class: ram, app_version: uniform(seed, index, 6) < 0.8 ? "4.2.0" : "4.1.3" },
      examples: 20 + Math.floor(300 * uniform(seed, index, 5) ** 2),
    };
  });
}

/** The parts of a job file that no job changes. */
export function jobFile(name: string, population: string): JobDraft["job"] {
  return {
    name,
    population,
    model: { input: [64], layers: [{ kind: "linear", out_features: 10 }] },
    training: { epochs: 5, batch_size: 10, optimizer: { kind: "sgd", learning_rate: 0.2 } },
    update: { codec: "int8" },
  };
}

function jobText(name: string, population: string, rules: JobRules, stop: MockJob["stop"]): string {
  return `name = "${name}"
population = "${population}"
seed = 7

[model]
input = [64]
layers = [
  { kind = "linear", out_features = 64 },
  { kind = "relu" },
  { kind = "linear", out_features = 10 },
]

[training]
epochs = 5
batch_size = 10
loss = "cross_entropy"
shuffle = true
optimizer = { kind = "sgd", learning_rate = 0.2, momentum = 0.0 }

[update]
codec = "int8"             # a quarter of the bytes
weight_max = 10000
magnitude_max = 32.0

[round]
updates_goal = ${rules.goal}
updates_min = ${rules.minimum}
over_selection = ${rules.overSelection}
deadline_ms = ${rules.deadlineMs}

[evaluation]
every_rounds = 1

[stop]
${Object.entries(stop)
  .map(([key, value]) => `${key} = ${value}`)
  .join("\n")}
`;
}

export function healthOf({ id, state }: MockJob): Health[] {
  if (state === "paused") {
    return [{ severity: "waiting", kind: "paused", text: "paused: no round opens", remedy: "resume the job" }];
  }
  const rest: Health = { severity: "ok", kind: state === "running" ? "fine" : "ended", text: `the job is ${state}` };
  if (id !== JOBS.flaky) return [rest];
  const abandoned: Health = {
    severity: "trouble",
    kind: "rounds_abandoned",
    text: [
      "3 of the last 5 rounds were abandoned. Round 12 was abandoned: fewer than 5 eligible clients checked in within",
      "5 min; 0 of 14 enrolled clients have platform=watch (android 8, ios 4, pi 2).",
    ].join(" "),
    remedy: "start more clients that the job admits, or lower updates_goal, updates_min or over_selection",
  };
  const shutOut: Health = {
    severity: "warning",
    kind: "class_shut_out",
    text: "2 clients of platform=pi were drawn 41 times, and no update of theirs counted",
    remedy: "give the clients a longer deadline_ms and draw fewer in addition (over_selection), or exclude the class",
  };
  return [abandoned, shutOut];
}
