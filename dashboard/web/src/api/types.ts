// What the operator API says (protocol/src/operator.rs), as the dashboard reads it.
// Times are milliseconds since 1970, durations milliseconds. A field that is left out is unknown.

export type JobState = "awaiting_model" | "running" | "paused" | "stopped" | "completed";
export type Task = "train" | "evaluate";
export type Phase = "selecting" | "training" | "aggregating" | "committed" | "abandoned";
export type AssignmentState = "assigned" | "reported" | "rejected" | "failed" | "expired";

export interface Page<T> {
  items: T[];
  /** What to send as `after`; none at the end. */
  next?: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  retry_after_ms?: number;
  request_id?: string;
}

export interface Population {
  name: string;
  clients: number;
  created_at_ms: number;
}

export interface StopPolicy {
  rounds?: number;
  accuracy?: number;
}

export interface JobSummary {
  id: string;
  name: string;
  population: string;
  state: JobState;
  model_version?: number;
  parameters: number;
  rounds_opened: number;
  rounds_committed: number;
  created_at_ms: number;
  ended_at_ms?: number;
  codec?: string;
  stop?: StopPolicy;
  rounds_not_before_ms?: number;
}

export interface RoundPolicy {
  updates_goal: number;
  updates_min: number;
  over_selection: number;
  available_min: number;
  selection_timeout_ms: number;
  deadline_ms: number;
  backoff_ms: number;
  backoff_max_ms: number;
}

export interface JobFile {
  name: string;
  population: string;
  update?: { codec?: unknown };
  round: RoundPolicy;
  stop?: StopPolicy;
  evaluation?: unknown;
  retention?: { models?: unknown };
}

export interface Job {
  id: string;
  file: JobFile;
  plan_hash: string;
  state: JobState;
  model_version?: number;
  parameters: number;
  rounds_opened: number;
  rounds_committed: number;
  created_at_ms: number;
  ended_at_ms?: number;
  rounds_not_before_ms?: number;
}

/** One client of an open round. */
export interface Cell {
  number: number;
  state: AssignmentState;
  reason?: string;
}

export interface Round {
  number: number;
  task: Task;
  phase: Phase;
  reason?: string;
  base_version: number;
  seed: number;
  goal: number;
  minimum: number;
  cohort: number;
  reported: number;
  folded?: number;
  rejected: number;
  failed: number;
  expired: number;
  opened_at_ms: number;
  selected_at_ms?: number;
  deadline_at_ms?: number;
  closed_at_ms?: number;
  ended_at_ms?: number;
  weight: number;
  training_loss?: number;
  loss?: number;
  accuracy?: number;
  bytes_up: number;
  bytes_down: number;
  raw_bytes_up?: number;
  raw_bytes_down?: number;
  /** Clients that still work. */
  assigned?: number;
  /** Sum of the time that its clients worked. */
  clients_ms?: number;
  step_norm?: number;
  diversity?: number;
  cells?: Cell[];
}

/** [round, accuracy, loss] */
export type SparkPoint = [number, number | null, number | null];

export interface JobOverview {
  job: JobSummary;
  open_rounds: Round[];
  last_round?: Round;
  best_accuracy?: number;
  accuracy?: number;
  loss?: number;
  bytes_up: number;
  bytes_down: number;
  spark: SparkPoint[];
}

export interface Overview {
  version: string;
  now_at_ms: number;
  populations: Population[];
  jobs: JobOverview[];
}

export interface PhaseSpan {
  phase: Phase;
  began_at_ms: number;
  ended_at_ms?: number;
}

export interface WhatIf {
  deadline_ms: number;
  dropped: number;
}

export interface RoundDetail {
  round: Round;
  phases: PhaseSpan[];
  explanation?: string;
  evaluation?: Round;
  what_if?: WhatIf[];
}

export interface Assignment {
  id: string;
  client: string;
  client_number: number;
  state: AssignmentState;
  reason?: string;
  assigned_at_ms: number;
  fetched_at_ms?: number;
  upload_at_ms?: number;
  ended_at_ms?: number;
  late_at_ms?: number;
  weight?: number;
  loss?: number;
  accuracy?: number;
  work_ms?: number;
  upload_ms?: number;
  update_norm?: number;
  cosine?: number;
  bytes_up: number;
  bytes_down: number;
  raw_bytes_up?: number;
  raw_bytes_down?: number;
  shape?: string;
  attributes?: Record<string, string>;
}

export interface ClientAssignment extends Assignment {
  job: string;
  round: number;
  task: Task;
}

export interface CurvePoint {
  round: number;
  at_ms?: number;
  wall_ms: number;
  clients_ms: number;
  bytes_up: number;
  bytes_down: number;
  training_loss?: number;
  loss?: number;
  accuracy?: number;
  reported: number;
  cohort: number;
  abandoned: boolean;
}

export interface Target {
  accuracy: number;
  round: number;
  at_ms: number;
  clients_ms: number;
  bytes_up: number;
}

export interface Curve {
  points: CurvePoint[];
  rounds: number;
  targets?: Target[];
}

export interface ModelVersion {
  version: number;
  round?: number;
  sha256: string;
  bytes: number;
  created_at_ms: number;
  deleted_at_ms?: number;
}

export interface Client {
  id: string;
  number: number;
  population: string;
  attributes: Record<string, string>;
  examples: number;
  created_at_ms: number;
  last_seen_at_ms: number;
  reported: number;
  expired: number;
  failed: number;
  rejected?: number;
  bytes_up?: number;
  bytes_down?: number;
  work_ms_mean?: number;
}

export interface AttributeName {
  name: string;
  values: number;
}

export interface ShapeCount {
  shape: string;
  count: number;
}

export interface ClassStats {
  value: string;
  clients: number;
  assigned: number;
  reported: number;
  rejected: number;
  failed: number;
  expired: number;
  drop_rate: number;
  work_ms_p50?: number;
  work_ms_p90?: number;
  shapes?: ShapeCount[];
}

export interface Lease {
  job: string;
  token: number;
  expires_at_ms: number;
}

export interface Node {
  id: string;
  version: string;
  started_at_ms: number;
  seen_at_ms: number;
  leases: Lease[];
}

export interface ScheduledWork {
  name: string;
  cron: string;
  time_zone: string;
  next_at_ms: number;
  last?: { started_at_ms: number; node: string; ended_at_ms?: number; failed: boolean; outcome: string };
}

export interface System {
  version: string;
  started_at_ms: number;
  engine: string;
  nodes: Node[];
  checkins_per_s?: number;
  held_clients?: number;
  updates_in_flight?: number;
  db?: { read_ms_p50?: number; read_ms_p99?: number; write_ms_p50?: number; write_ms_p99?: number };
  storage?: { database_bytes?: number; models_bytes?: number; updates_bytes?: number };
  schedules?: ScheduledWork[];
}

export interface AuditEntry {
  id: string;
  at_ms: number;
  token: string;
  label: string;
  action: string;
  subject: string;
  detail?: unknown;
}

/** Something that happened; look the round up for the details. */
export interface FeedEvent {
  sequence: number;
  at_ms: number;
  job: string;
  round?: number;
  task?: Task;
  assignment?: string;
  became: string;
  cause?: string;
}
