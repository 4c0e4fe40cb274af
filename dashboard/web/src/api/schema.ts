// Types of the coordinator's requests and answers. `npm run api` writes this file from openapi.json.

/** The reason why a round was abandoned. */
export type AbandonReason =
  | "selection_timeout"
  | "too_few_reports"
  | "job_stopped"
  | "not_finite"
  | "fault"
  | "superseded"
  | "overdrawn"
  | "upstream";

/** An account: a person who signs in with a password. */
export interface Account {
  /** Time of creation. */
  created_at_ms: number;
  /** Name of the account. */
  name: Name;
  /** Time at which the password was set. */
  password_at_ms: number;
  /** The only population that it shows and changes. Absent for the whole deployment. */
  population?: Name;
  /** Time at which an operator revoked it. */
  revoked_at_ms?: number;
  /** Role of the account. */
  role: Role;
}

/**
 * Deadlines and cohorts that follow the times of recent rounds (`[round] adapt`). `deadline_ms` holds
 * until enough is measured, and `over_selection` is the largest one.
 */
export interface Adapt {
  /** The attribute that tells classes of devices apart. Default: none. */
  class?: string;
  /**
   * Smallest share of a class that reports in time, as a factor of the share of all clients, 0 to 1.
   * Default: 0.5.
   */
  class_share_min?: number;
  /** Longest deadline, in milliseconds. Default: 3,600,000. */
  deadline_max_ms?: number;
  /** Shortest deadline, in milliseconds. Default: 30,000. */
  deadline_min_ms?: number;
  /** Rounds whose times are read, 1 to 1,000. Default: 20. */
  rounds?: number;
  /**
   * Smallest goal, 2 to `updates_goal`. The goal of each round then follows the diversity of the updates
   * of recent rounds, between this number and `updates_goal`. Default: none, every round has
   * `updates_goal`.
   */
  updates_goal_min?: number;
}

/** A deadline and a cohort that follow from the times of the rounds before (`[round] adapt`). */
export interface Adapted {
  /** Number of clients that are drawn. */
  cohort: number;
  /** The deadline, from the draw of the cohort, in milliseconds. */
  deadline_ms: number;
  /** Share of clients that are expected to miss it, in thousandths. */
  dropout_permille: number;
  /**
   * The deadline with the most updates per hour. Absent unless it is shorter, because a class of devices
   * needs longer.
   */
  fastest_ms?: number;
  /** Expected updates per hour. */
  updates_per_hour: number;
  /** Pieces of work that were measured. */
  works: number;
}

/** A goal that follows from the diversity of the rounds before (`[round] adapt updates_goal_min`). */
export interface AdaptedGoal {
  /** Smallest goal of the job. */
  least: number;
  /** Largest goal of the job. */
  most: number;
  /** Rounds whose diversity was measured. */
  rounds: number;
  /**
   * Updates that a round can use. Absent if the updates have no common direction, so that each further
   * one helps.
   */
  useful?: number;
}

/** How the norm of clipping follows a quantile of the updates' norms (Andrew et al. 2021). */
export interface AdaptiveClip {
  /** Part of the updates that is not clipped in the long run, above 0 and below 1. Default: 0.5. */
  quantile?: number;
  /**
   * How fast the norm moves, above 0 and at most 10. A round multiplies it by at most `e^rate`. Default:
   * 0.2.
   */
  rate?: number;
}

/** How `mu` of FedProx follows the training loss (Li et al. 2020, section 5.3.2). */
export interface AdaptiveMu {
  /** Rounds in a row whose loss fell before `mu` falls, at least 1. Default: 5. */
  falls?: number;
  /**
   * Added after each round whose loss rose, and subtracted after falls, above 0 and at most 1000.
   * Default: 0.1.
   */
  step?: number;
}

/** A clip that follows a noised count of the updates within it. */
export interface AdaptiveNoisedClip {
  /** The share of updates that it lets through whole, above 0 and below 1. Default: 0.5. */
  quantile?: number;
  /** How fast it moves, above 0 and at most 1. Default: 0.2. */
  rate?: number;
  /** The clip of the first round. Default: 0.1. */
  start?: number;
}

/** A norm bound that follows the norms of the updates that the job accepted lately. */
export interface AdaptiveNorm {
  /** Factor of the quantile, 1 to 1000. Default: 2. */
  factor?: number;
  /**
   * Quantile of the norms, above 0 and at most 1. With 0.5, fewer offenders than honest clients cannot
   * raise it.
   */
  quantile: number;
  /** Number of rounds whose accepted updates are looked at, 1 to 1000. Default: 10. */
  rounds?: number;
  /** The bound while too few updates were accepted. Default: none, the first rounds have no bound. */
  start?: number;
}

/**
 * How updates become the next model version (`[aggregation]`). The default is federated averaging
 * (McMahan et al. 2017): the mean of the deltas, weighted by examples, is added to the model.
 */
export interface Aggregation {
  /**
   * How the updates of a round become one step: a name, or a table of its `kind` and settings. Default:
   * `weighted_mean`.
   */
  combine?: Combine;
  /** What the step does to the model. Default: it is added. */
  optimizer?: ServerOptimizer;
  /** Schedule of the optimiser's learning rate. Default: constant. */
  schedule?: RateSchedule;
  /**
   * Into how many ranges of parameters the sum of a round is cut, each at one of several coordinators: 2
   * to 64, or `auto` for as many as there are coordinators when the job is created. Default: one
   * coordinator adds up all.
   */
  shards?: Shards;
}

/** What a client optimises, and how its steps count. */
export type Algorithm =
  | {
      kind: "plain";
    }
  | {
      /** How the weight follows the training loss from round to round. Default: it does not. */
      adaptive?: AdaptiveMu;
      kind: "fed_prox";
      /** Weight of the distance, 0 to 1000; 0 is the plain loss. Where it adapts, that of the first round. */
      mu: number;
    }
  | {
      kind: "fed_nova";
      /** Weight of the distance from the global model, as in `fed_prox`. Default: 0. */
      mu?: number;
    }
  | {
      /** Number of clients that take part in the job, those included that are never selected: N of the paper. */
      clients: number;
      /** What the client's next control vector is. Default: `steps`. */
      control?: Control;
      kind: "scaffold";
    }
  | {
      /** Weight of the distance, above 0 and at most 1000. */
      alpha: number;
      /** Number of clients that take part in the job, those included that are never selected: m of the paper. */
      clients: number;
      kind: "fed_dyn";
    }
  | {
      /**
       * The share of the distance by which both sides move, above 0. Times the updates of a version at most
       * 1.
       */
      alpha: number;
      kind: "easgd";
    };

/** Questions to the clients' tables (`[analysis]`). */
export interface Analysis {
  /**
   * Standard deviation of the noise in each number of the answers, where a client's vector has a norm of
   * at most 1. The coordinator fills it in for analyses with `[privacy]`.
   */
  noise?: number;
  /**
   * Clients who each add this noise to what they send, at most, where it is not added to their sum. The
   * coordinator fills it in with `mechanism = "local"`.
   */
  noised_by?: number;
  /**
   * Rows of a client that count, at most; of more, the same ones in each round, drawn by the job.
   * Default: 1 with `[privacy]`, which is the least noise, and all rows without.
   */
  per_client?: number;
  /** The questions, at most 100. */
  queries: Query[];
}

/** The answer to one query. */
export interface Answer {
  /** The column that it reads. */
  column: string;
  /**
   * What this answer alone tells of a unit: its part of the job's epsilon. Absent without privacy, and
   * with a `test_key`.
   */
  epsilon?: number;
  /** Its numbers. */
  estimates: Estimate[];
  /** Kind of the query: `count`, `histogram`, `mean`, `quantiles`, `heavy_hitters` or `rate`. */
  kind: string;
  /** Name of the query. */
  name: Name;
  /** Standard deviation of the noise of a count, in rows; 0 without privacy. */
  noise: number;
}

/** An assignment: the work of one client in one round. */
export type Assignment = Traffic & {
  /** Accuracy that an evaluator reported, 0 to 1. */
  accuracy?: number;
  /** Upper end of that interval. */
  accuracy_high?: number;
  /** Lower end of the 95 % interval (Wilson's) of that accuracy, by its number of examples. */
  accuracy_low?: number;
  /** Time at which the client was drawn. */
  assigned_at_ms: number;
  /** Attributes of the client, as of its last check-in. */
  attributes?: Attributes;
  /** Model version that the client started from. */
  base_version?: number;
  /** Of a relay: bytes of its clients' updates, which its parent did not receive. */
  bytes_below?: number;
  /** Id of the client. */
  client: ClientId;
  /** Number of the client in the order of enrolment. */
  client_number: number;
  /**
   * Cosine of the angle between the update and the mean of its round, -1 to 1. Absent where it would
   * cost too much to compute.
   */
  cosine?: number;
  /** Time at which the assignment ended: by report, rejection, failure or expiry. */
  ended_at_ms?: number;
  /** Why the assignment ended without an accepted report, in words for people. */
  explanation?: string;
  /** Time at which the download of the model ended. */
  fetched_at_ms?: number;
  /** Id of the assignment. */
  id: AssignmentId;
  /** Time at which a straggler came back with finished work. */
  late_at_ms?: number;
  /** Loss that the client reported. */
  loss?: number;
  /** Named scalars that the client reported. */
  metrics?: Metrics;
  /** In a coded round: the parts of the data that the client trains on. Absent in others. */
  parts?: Name[];
  /** Of a relay: the clients of the cohort that it stands for. Absent for a client. */
  places?: number;
  /** Why the update was rejected or the client gave up. */
  reason?: string;
  /** Of a relay: how long its parent took to answer it, as it said with its sum, in milliseconds. */
  round_trip_ms?: number;
  /**
   * Course of the client's session, one character per event: `c` checked in, `a` assigned, `d`
   * downloaded, `t` trained, `u` uploaded; then `+` reported, `!` rejected, `x` failed, `i` interrupted
   * or `.` expired; then `~` for finished late or `s` for stopped unfinished.
   */
  shape?: string;
  /** Whether the straggler was a spare: its round had reached its goal, and the client came back. */
  spare?: boolean;
  /**
   * Versions between that one and the version from which its round starts. Above 0 only in buffered
   * jobs.
   */
  staleness?: number;
  /** State of the assignment. */
  state: AssignmentState;
  /** Time at which a straggler stopped without finishing its work. */
  stopped_at_ms?: number;
  /** Outcome of a straggler. Absent for other assignments. */
  straggler?: Straggler;
  /** L2 norm of the update. */
  update_norm?: number;
  /**
   * Of a relay, or of the holder of a block of parts: the updates in its sum. Absent until it has
   * reported, and for other clients.
   */
  updates?: number;
  /** Time at which the first byte of the update arrived. */
  upload_at_ms?: number;
  /** Time from the first to the last byte of the update, in milliseconds. */
  upload_ms?: number;
  /** Number of examples of the report. */
  weight?: number;
  /** Work time that the client reported, in milliseconds. */
  work_ms?: number;
};

/** Id of an assignment: the work of one client in one round. */
export type AssignmentId = string;

/** The state of an assignment, the work of one client in one round. */
export type AssignmentState = "assigned" | "reported" | "rejected" | "failed" | "expired";

/** Status of an assignment whose round is open. */
export interface AssignmentStatus {
  /** Time until the round closes, in milliseconds. */
  deadline_in_ms: number;
  /** Whether the client's report was accepted. If so there is nothing more to send. */
  reported: boolean;
}

/**
 * What a device's platform says about it, for the operator's attestation webhook. The coordinator does
 * not read it.
 */
export interface Attestation {
  /** Which kind of statement it is, for example `ios-app-attest`: 1 to 128 bytes. */
  platform: string;
  /** The statement, in the platform's form; binary ones in base64. At most 65,536 bytes. */
  statement: string;
}

/** The name of an attribute that clients of a population have. */
export interface AttributeName {
  /** Name of the attribute. */
  name: string;
  /** Number of distinct values. */
  values: number;
}

/** Attributes of a client, as names and values: at most 32 pairs. */
export type Attributes = Record<string, string>;

/** What was done, as the audit log records it. */
export type AuditAction =
  | "population.create"
  | "population.budget"
  | "token.create"
  | "token.revoke"
  | "account.create"
  | "account.password"
  | "account.revoke"
  | "account.sessions_end"
  | "session.login"
  | "session.logout"
  | "client.enrol"
  | "client.quarantine"
  | "client.release"
  | "client.revoke"
  | "client.erase"
  | "client.leave"
  | "refusal"
  | "job.create"
  | "job.pause"
  | "job.resume"
  | "job.stop"
  | "job.round_policy"
  | "job.change"
  | "job.delete"
  | "release.create"
  | "release.widen"
  | "release.withdraw"
  | "model.pin"
  | "model.unpin"
  | "model.upload"
  | "test_set.upload"
  | "job.take_over";

/** An entry of the audit log. Its members are ordered by name, which the canonical JSON depends on. */
export interface AuditEntry {
  /** The audit action, such as `job.pause`. */
  action: AuditAction;
  /** Who acted: `token_..`, `account:NAME`, `oidc:SUBJECT`, `client_..`, `anonymous` or `coordinator`. */
  actor: string;
  /** Time of the action. */
  at_ms: number;
  /** Further details of the action. */
  detail?: string;
  /** SHA-256 of the entry: of its canonical JSON without this member. */
  hash: Sha256Hash;
  /** Name of the account, or label of the token, at that time. */
  label: string;
  /** Number of the entry, from 1 without gaps. */
  number: number;
  /** Population that the action concerned. Absent if it concerned the deployment. */
  population?: Name;
  /** Hash of the entry before; zeros for the first. */
  previous: Sha256Hash;
  /** Id or name of the object that was changed. */
  subject: string;
}

/** A row in the list of the audit log. */
export type AuditRow = AuditEntry & {
  /** The enrolments for which the row stands, if they are more than one. */
  folded?: FoldedEntries;
};

/** The word `auto`. */
export type Auto = "auto";

/**
 * The version whose accuracy has the highest lower bound, or without accuracies the lowest loss. Of
 * equal ones, the oldest.
 */
export interface BestVersion {
  /** Accuracy of its evaluation, 0 to 1. */
  accuracy?: number;
  /** Loss of its evaluation. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /** Training round that made it. */
  round: number;
  /** Number of the version. */
  version: number;
}

/** Bias correction of Adam's moments: a factor of the learning rate. */
export type BiasCorrection = "none" | "kingma" | "flower";

/** Settings of `int8` and `int4`. */
export interface Blocks {
  /**
   * Values per scale: a multiple of 8 from 8 to 4096. A longer block takes fewer bytes and has a larger
   * error. Blocks do not cross parameters.
   */
  block?: number;
}

/** A member of a coded tree, with all members below it. */
export interface Branch {
  /** Levels above it: 1 of a child of the root. */
  level: number;
  /** Its number in its level, from 0. The children of member `m` are `n m` to `n m + n - 1`. */
  member: number;
}

/** What one job has spent of a shared budget. */
export interface BudgetPart {
  /**
   * The epsilon that it would have spent alone, at the delta of the shared budget. Such numbers add up
   * to more than jobs spend together.
   */
  epsilon: number;
  /** Id of the job. */
  job: JobId;
  /** Its name. */
  name: Name;
}

/** A shared budget and what of it is spent. */
export interface BudgetState {
  /** The budget. */
  budget: SharedBudget;
  /** The jobs that have spent something or may still, oldest first. Deleted jobs are in `spent` alone. */
  jobs: BudgetPart[];
  /**
   * The epsilon that the releases of all jobs spend together, as if one unit had been in each job as
   * often as any unit was. It counts on no draw.
   */
  spent: number;
}

/**
 * How often a client of a buffered job takes the newest model, and how often it sends an update
 * (Downpour SGD, Dean et al. 2012). Between two fetches it continues from its own weights.
 */
export interface Cadence {
  /**
   * Updates from one fetch of the model to the next, 1 to 1,000. With 1, each training begins with the
   * newest model.
   */
  fetch_every: number;
  /** Local trainings behind an update, each from the weights that the one before reached, 1 to 1,000. */
  push_every: number;
}

/** A member of a cohort. */
export interface Cell {
  /** Number of the client in the order of enrolment. */
  number: number;
  /** Why the update was rejected or the client gave up. */
  reason?: string;
  /** State of its assignment. */
  state: AssignmentState;
}

/** A client asks for a certificate. */
export interface CertificateRequest {
  /**
   * A PKCS #10 request in PEM (RFC 2986), at most 8,192 bytes: with an ECDSA key on P-256, signed with
   * SHA-256. Its names and extensions are ignored.
   */
  certificate_request: string;
}

/** Request that changes how a job is filed. Absent members stay as they are. No round depends on them. */
export interface ChangeJob {
  /** Whether lists leave the job out. */
  archived?: boolean;
  /** The new name, unique in the population. */
  name?: Name;
  /** Notes for people, at most 4,000 bytes. */
  notes?: string;
  /** All tags, at most 20. */
  tags?: Name[];
}

/** Request for a new password of an account. */
export interface ChangePassword {
  /** Password: at least 12 characters, at most 1024 bytes. */
  password: string;
}

/** Request that quarantines or revokes a client. */
export interface ChangeStanding {
  /** The reason, for people; at most 200 bytes. */
  reason?: string;
  /** The new standing. */
  standing: Standing;
}

/** What a channel has for a client. */
export interface ChannelAnswer {
  /** When to ask again, in milliseconds. It is randomised, so that a fleet does not ask at once. */
  ask_after_ms: number;
  /** The channel. */
  channel: Name;
  /**
   * The client's release. Absent where the channel has none for it: a client that has one stops using
   * it.
   */
  release?: Released;
}

/** Response to a check-in, with what else the client should do. */
export type CheckInReply = CheckInResponse & {
  /** The channels that have another release for the client than the one that it has. */
  channels?: ChannelAnswer[];
  /**
   * Credentials to replace now: a certificate of which two thirds of the time are over, a secret of 30
   * days.
   */
  renew?: Renewal[];
};

/** Check-in: a client is available for work. */
export interface CheckInRequest {
  /**
   * What the SDK can do: the client gets no work of plans that need more. Default: what the first
   * release could do.
   */
  abilities?: string[];
  /** Whether the client answers analyses. Default: false, and it gets none. */
  answers?: boolean;
  /** Current attributes. They replace those of earlier check-ins. */
  attributes?: Attributes;
  /**
   * The channels whose releases the app follows, at most 8, each with the SHA-256 of the model's file
   * that the client has of it. A newer release comes with the answer.
   */
  channels?: Record<string, string | null>;
  /**
   * Codecs in which the client can write updates. The coordinator ignores names that it does not know,
   * such as those of a newer SDK.
   */
  codecs: string[];
  /**
   * Whether the client can mask updates. Default: false, and it gets no work of jobs with secure
   * aggregation.
   */
  masks?: boolean;
  /** What a relay offers. It is refused (`forbidden`) from a client whose token grants no `relay`. */
  relay?: RelayOffer;
  /**
   * What the client's table has in common with others: a hash of columns and classes, if a job's columns
   * were applied to it. It gets no work of jobs with another schema.
   */
  schema?: string;
  /**
   * Kind of the SDK: `rust`, `python`, `kotlin`, `swift`, `c`, `browser`, or another name. The operator
   * sees it.
   */
  sdk?: Name;
  /** Version of the SDK, for information. */
  sdk_version: string;
  /**
   * The client's named example sets. It gets work of jobs that name one of them, beside that of jobs
   * without a name, which use the examples of `state`. Default: none.
   */
  sets?: Record<string, ExampleSet>;
  /**
   * Whether the client can sign in a group, with a certificate for its key. Default: false, and it gets
   * no work of jobs whose groups sign.
   */
  signs?: boolean;
  /** Current state of the device. */
  state: DeviceState;
  /**
   * Longest time to hold the request until there is work, in milliseconds, at most 60,000. Default: 0,
   * an immediate answer.
   */
  wait_ms?: number;
}

/** Response to a check-in. */
export type CheckInResponse =
  | (DeviceAssignment & {
      answer: "assigned";
    })
  | {
      answer: "retry";
      /**
       * Time to wait before the next check-in, in milliseconds. It is randomised, so that a fleet does not
       * check in at once.
       */
      retry_after_ms: number;
      /** For the person who started the client. Absent in large fleets, where counting would cost too much. */
      waits_for?: WaitsFor;
    };

/**
 * How often each class was right. A classifier with up to 100 classes has a confusion matrix; with up
 * to 1,000, two counts per class.
 */
export type ClassCounts =
  | {
      /** Number of classes, at most 100. */
      classes: number;
      /** Row by row: `counts[truth * classes + predicted]`. */
      counts: number[];
      kind: "confusion";
    }
  | {
      /** Number of targets of each class. */
      examples: number[];
      kind: "per_class";
      /** For how many of them the class had the highest score. */
      right: number[];
    };

/**
 * Statistics of the clients with one value of an attribute, over the newest training assignments of
 * their population.
 */
export interface ClassStats {
  /** Number of their assignments. */
  assigned: number;
  /** Number of clients with this value. */
  clients: number;
  /**
   * Share of ended assignments with an accepted report, 0 to 1. Spares count here: their updates do not
   * reach the model either.
   */
  counted_rate?: number;
  /** Upper end of that interval. */
  counted_rate_high?: number;
  /** Lower end of the 95 % confidence interval of `counted_rate` (Wilson 1927). */
  counted_rate_low?: number;
  /**
   * Share of ended assignments that were dropped, 0 to 1: those without an accepted report, spares left
   * out.
   */
  drop_rate: number;
  /** Number of assignments whose round closed first. */
  expired: number;
  /** Number of assignments that the client gave up. */
  failed: number;
  /** Number of assignments whose update was rejected. */
  rejected: number;
  /** Number of assignments that ended with a report. */
  reported: number;
  /** Courses of their sessions, most frequent first. */
  shapes: ShapeCount[];
  /** Number of those that were spares; see the field of a round. */
  spare?: number;
  /** Value of the attribute. Empty for clients without the attribute. */
  value: string;
  /**
   * Whether the class counts as often as the others, by Fisher's exact test at the level of 1 %, divided
   * by the number of classes.
   */
  verdict?: ClassVerdict;
  /**
   * Time within which unfinished work was not done: where a percentile is absent, it is longer than
   * this. Median of the unfinished assignments, in milliseconds.
   */
  work_ms_over?: number;
  /** Median work time, in milliseconds. Absent if less than half of the clients' work was finished. */
  work_ms_p50?: number;
  /**
   * 90th percentile of the work time, in milliseconds. Absent if less than 90 % of the work was
   * finished.
   */
  work_ms_p90?: number;
}

/** Targets and right answers of each class. */
export interface ClassTotals {
  /** Number of targets of each class. */
  examples: number[];
  /** For how many of them the class had the highest score. */
  right: number[];
}

/** Whether the updates of a device class count as often as those of the other classes. */
export type ClassVerdict = "shut_out" | "under" | "fair" | "unknown";

/** A client: an enrolled device or silo. */
export interface Client {
  /** Attributes, as of the last check-in. */
  attributes: Attributes;
  /** Bytes of the models that it downloaded. */
  bytes_down?: number;
  /** Bytes of the updates that it uploaded. */
  bytes_up?: number;
  /** End of the newest certificate that it was given; none if it was given none. */
  certificate_until_ms?: number;
  /** The consent that it told at its enrolment. */
  consent?: Consent;
  /** Time of enrolment. */
  created_at_ms: number;
  /** Number of training examples, as of the last check-in. */
  examples: number;
  /** Number of rounds that closed before it reported. */
  expired: number;
  /** Number of rounds in which it gave up or its update was rejected. */
  failed: number;
  /** Those of the attributes that its enrolment token granted. The client cannot change them. */
  granted?: Attributes;
  /** Id of the client. */
  id: ClientId;
  /** Time of its last request. */
  last_seen_at_ms: number;
  /** Number in the order of enrolment, from 1, unique in the population. */
  number: number;
  /** Whether it is here now: a coordinator holds a request of it until there is work, or it is at work. */
  online?: boolean;
  /** Of a relay that waits at this coordinator: the clients that wait behind it. */
  places?: number;
  /** Population of the client. */
  population: Name;
  /** Number of rounds in which its update was rejected; included in `failed`. */
  rejected?: number;
  /** The releases that it says it has, by channel. Only in the answer about one client. */
  releases?: HeldRelease[];
  /** Number of rounds in which it reported. */
  reported: number;
  /**
   * Kind of its SDK, such as `rust`, `python` or `kotlin`, as of the last check-in; none if it named
   * none.
   */
  sdk?: Name;
  /**
   * Number of those rounds that did not need its report, because they had reached their goal, and after
   * which it came back. Included in `expired`; not counted as dropped.
   */
  spare?: number;
  /** Whether it may take part. */
  standing?: Standing;
  /** Why it is quarantined or revoked. */
  standing_reason?: string;
  /** Mean work time per report, in milliseconds, as reported by the client. */
  work_ms_mean?: number;
  /** Whether it is at work: it has an open assignment, and was heard of in the last five minutes. */
  working?: boolean;
}

/** An assignment in the history of its client. */
export type ClientAssignment = Assignment & {
  /** Id of the job. */
  job: JobId;
  /** Number of the round. */
  round: number;
  /** Task of the round. */
  task: Task;
};

/** Id of a client: an enrolled device or silo. */
export type ClientId = string;

/** What a list of clients is sorted by. */
export type ClientOrder =
  | "number"
  | "last_seen"
  | "examples"
  | "reported"
  | "late"
  | "failed"
  | "drop_rate"
  | "work"
  | "up";

/** The norm to which updates are clipped. */
export type Clip = number | AdaptiveNoisedClip;

/** How the parts of the data are shared out, and their updates put together. */
export type Code = "fractional" | "cyclic";

/** How updates are encoded: the name of a codec, or a table of its name and settings. */
export type Codec = CodecName | Tagged;

/** The name of a codec, as job files, metadata and check-ins write it. */
export type CodecName =
  | "f32"
  | "f16"
  | "bf16"
  | "int8"
  | "int4"
  | "ternary"
  | "qsgd"
  | "sign"
  | "random_k"
  | "top_k"
  | "dgc"
  | "eden"
  | "hierarchical";

/**
 * Which parts of the data clients hold, and how many of their answers a round does without. Each round
 * draws a client for each part, and every part is trained by `stragglers` + 1 of them.
 */
export interface Coded {
  /** How parts are shared out. Default: `fractional`. */
  code?: Code;
  /** The parts: names of example sets, each at `stragglers` + 1 clients or more. 2 to 64. */
  parts: Name[];
  /**
   * Clients without whose answers a round has the update of every part, at least 1. A client trains on
   * so many parts and one more, at most 32.
   */
  stragglers: number;
  /**
   * A tree of relays with a code for each parent and its children. Default: none, clients send to the
   * coordinator.
   */
  tree?: CodedTree;
}

/** The work of one client in a coded round. */
export interface CodedTerms {
  /** The parts to train on, one after the other. */
  parts: PartTerms[];
  /** How their exact sum is made. Absent where the client sends a combination, as an f32 update. */
  sum?: SumTerms;
}

/**
 * A tree in which each parent has a code for its children. The children of the coordinator are relays,
 * and those of the last level are clients. A relay has one client more, which trains on what the relay
 * keeps.
 */
export interface CodedTree {
  /** Children of each parent, of which it does without `stragglers`. */
  children: number;
  /** Levels below the coordinator: 2. The data has as many parts as `tributary tree plan` says. */
  levels: number;
}

/** A column of a table, and how its values become inputs. */
export interface Column {
  /** The texts of a category, in the order of their codes 0, 1, .. */
  categories?: string[];
  /** What remains is divided by it. Default: 1. */
  deviation?: number;
  /** How a category is fed. Default: `one_hot`. */
  encoding?: Encoding;
  /** What its values are. Default: `number`. */
  kind?: ColumnKind;
  /** Subtracted from numbers, dates and codes. Default: 0. */
  mean?: number;
  /** What becomes of missing values. Default: `refuse`. */
  missing?: MissingValues;
  /** Name, as in the table's header. */
  name: string;
  /** Smallest and largest value; a client refuses others. Default: any number. */
  range?: number[];
  /** What replaces a missing value: a number, or the code of a category. */
  replacement?: number;
  /** Unit of its values, for people. */
  unit?: string;
}

/** What the values of a column are. */
export type ColumnKind = "number" | "category" | "date";

/** The table of a rule as it is written. */
export type Combine =
  | {
      kind: "weighted_mean";
    }
  | {
      kind: "uniform_mean";
    }
  | {
      kind: "q_fedavg";
      /** Fairness, 0 to 100; 0 is the uniform mean. */
      q: number;
    }
  | {
      /** How the norm follows those of the updates. Default: it does not. */
      adaptive?: AdaptiveClip;
      kind: "norm_clipping";
      /** Largest L2 norm, above 0. Where it adapts, that of the first round. */
      norm: number;
    }
  | {
      kind: "median";
    }
  | {
      kind: "trimmed_mean";
      /** Part of the values that is dropped at each end, at least 0 and below 0.5. Default: 0.2. */
      trim?: number;
    }
  | {
      /** Wrong updates that a round may have. */
      byzantine: number;
      kind: "krum";
    }
  | {
      /** Wrong updates that a round may have. */
      byzantine: number;
      /** Updates that are averaged, at least 2. Default: all but the wrong ones. */
      keep?: number;
      kind: "multi_krum";
    }
  | {
      /** Wrong updates that a round may have. */
      byzantine: number;
      kind: "bulyan";
    }
  | {
      /** Weiszfeld steps from the mean, 1 to 1000. Default: 100. */
      iterations?: number;
      kind: "geometric_median";
      /** Smallest distance that divides a weight. Default: 1e-6. */
      smoothing?: number;
    }
  | {
      /** Steps of the centre in a round, 1 to 1000. Default: 3. */
      iterations?: number;
      kind: "centered_clipping";
      /** Largest distance from the centre, in L2 norm of a delta. */
      radius: number;
    };

/** The file of a vector that belongs to a model version, in the form of a plain model. */
export interface CompanionFile {
  /** Length of the file. */
  bytes: number;
  /** SHA-256 of the file. */
  sha256: Sha256Hash;
}

/** The consent with which a client takes part. */
export interface Consent {
  /** When, in milliseconds since 1970, by the device's clock. */
  given_at_ms: number;
  /** The text that was agreed to, such as its version: 1 to 128 bytes. */
  text: string;
}

/** The control vector that a client of SCAFFOLD keeps after a round. */
export type Control = "gradient" | "steps";

/** Request for a new account. */
export interface CreateAccount {
  /** Name of the account, unique in the deployment. */
  name: Name;
  /** Password: at least 12 characters, at most 1024 bytes. */
  password: string;
  /** The only population that it shows and changes. Default: the whole deployment. */
  population?: Name;
  /** Role of the account. */
  role: Role;
}

/** Request for a new job. */
export interface CreateJob {
  /** The job file. */
  job: JobFile;
}

/** Request for a new population. */
export interface CreatePopulation {
  /** What all its jobs together may tell about a unit. Default: they share no budget. */
  budget?: SharedBudget;
  /** Name of the population, unique in the deployment. */
  name: Name;
}

/** The release of a version. */
export interface CreateRelease {
  /** Attributes that a client must have. Default: none. */
  attributes?: Record<string, string>;
  /** The channel. */
  channel: Name;
  /**
   * Whether clients get the version's own bits. Default: false, and where the channel has a release with
   * the same parameters, the release is that one plus 8-bit differences.
   */
  exact?: boolean;
  /**
   * What an evaluation of the release must show before it goes out: a measure, `>=` or `<=`, and a
   * number, such as `accuracy >= 0.9`. Default: none, it goes out at once.
   */
  gate?: string;
  /** Job that made the version. */
  job: JobId;
  /** Share of the clients, in millionths. Default: all. */
  share?: Share;
  /** The version. */
  version: number;
}

/** Request for a new token. Its kind is explicit. */
export type CreateToken =
  | {
      kind: "operator";
      /** Purpose of the token, for people: at most 200 bytes, no control or invisible characters. */
      label?: string;
      /** The only population that it shows and changes. Default: the whole deployment. */
      population?: Name;
      /** Role of its holder. */
      role: Role;
      /** Lifetime in milliseconds. Default: 90 days. */
      valid_for_ms?: number;
    }
  | {
      /** Attributes of each client that it enrols. The client cannot change them. */
      attributes?: Attributes;
      kind: "enrolment";
      /** Purpose of the token, for people: at most 200 bytes, no control or invisible characters. */
      label?: string;
      /** Most clients that it can enrol in a minute. Default: 600; null: unlimited. */
      per_minute_max?: number;
      /** Population in which it can enrol clients. */
      population: Name;
      /** Most clients that it can enrol. Default: unlimited. */
      uses_max?: number;
      /** Lifetime in milliseconds. Default: unlimited. */
      valid_for_ms?: number;
    };

/** A new token with its secret, which no later call returns. */
export interface CreatedToken {
  /** Bearer credential. */
  secret: PinnedSecret;
  /**
   * Address at which clients reach the coordinator, with an enrolment token. Absent if it is that of the
   * request.
   */
  server?: string;
  /** The token without its secret. */
  token: Token;
}

/** The learning curve of a job, reduced to the requested number of points. */
export interface Curve {
  /** What happened to the job itself, in order: pauses, changes of its settings, other coordinators. */
  marks?: CurveMark[];
  /**
   * Ended training rounds in order: the first, the last, and the best and worst of each interval in
   * between.
   */
  points: CurvePoint[];
  /** Number of ended training rounds before the reduction. */
  rounds: number;
  /** The cost of reaching given accuracies, for those that were reached. */
  targets: Target[];
}

/** An event of the job itself in its learning curve. */
export interface CurveMark {
  /** Time of the event. */
  at_ms: number;
  /** The new state of the job, or `taken_over`. */
  became: string;
  /** The reason, such as `operator` or `round_policy`. */
  cause?: string;
  /** The last training round that had ended, 0 before the first. */
  round: number;
  /** Time from the job's creation to the event, in milliseconds. */
  wall_ms: number;
}

/**
 * An ended training round as a point of a learning curve. Cumulative fields sum over all training
 * rounds up to this one.
 */
export interface CurvePoint {
  /** Whether the round was abandoned. */
  abandoned: boolean;
  /** Accuracy of the resulting model in its evaluation, 0 to 1. */
  accuracy?: number;
  /** Time at which the round ended. */
  at_ms: number;
  /** Bytes that clients downloaded, cumulative. */
  bytes_down: number;
  /** Bytes that clients uploaded, cumulative. */
  bytes_up: number;
  /** Work time of clients, cumulative, in milliseconds. */
  clients_ms: number;
  /** Number of clients drawn. */
  cohort: number;
  /** Loss of the resulting model in its evaluation. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /** Number of accepted reports. */
  reported: number;
  /** Number of the round. */
  round: number;
  /** Mean training loss of the round's updates. */
  training_loss?: number;
  /** Time from the job's creation to the end of the round, in milliseconds. */
  wall_ms: number;
}

/**
 * Latency of the database, over the last transactions of one coordinator. Fields are absent before the
 * first ones.
 */
export interface DbLatency {
  /** Median time to begin a reading transaction, in milliseconds. */
  read_ms_p50?: number;
  /** 99th percentile of that time, in milliseconds. */
  read_ms_p99?: number;
  /** Median time to begin a writing transaction, in milliseconds. On SQLite, writers queue for it. */
  write_ms_p50?: number;
  /** 99th percentile of that time, in milliseconds. */
  write_ms_p99?: number;
}

/** The sums of one column. */
export type Described =
  | {
      /** Of numbers and dates. */
      numbers: Moments;
    }
  | {
      /** Rows in each category, in the order of the codes. */
      categories: number[];
    };

/**
 * The sums of one table, or of all tables of a round: for each column of the job, and for its target
 * where that is a number.
 */
export interface Description {
  /** In the order of the columns; the target last. */
  columns: Described[];
  /** Number of rows. */
  examples: number;
}

/** The work of one client in one round. */
export interface DeviceAssignment {
  /**
   * Time between two questions whether the round is still open, in milliseconds, while the client works.
   * A round that reaches its goal closes before its deadline. Large cohorts ask less often.
   */
  ask_every_ms?: number;
  /**
   * The parts of the data to train on, in a coded round. Absent in others, where `data` names the
   * examples.
   */
  coded?: CodedTerms;
  /**
   * The control variate of that version, where the plan's algorithm has one. Absent for the first
   * version, where it is zero, and for evaluations.
   */
  control?: CompanionFile;
  /** The example set to work on, as the client named it. Absent: the examples without a name. */
  data?: Name;
  /** Time until the round closes, in milliseconds. A duration, since device clocks are often wrong. */
  deadline_in_ms: number;
  /**
   * The round of the client's last accepted update, if that round was abandoned afterwards and the
   * plan's algorithm or codec keeps a vector on the device: the client goes back to the vector that it
   * had before that round.
   */
  dropped_round?: number;
  /**
   * The file to download instead, if the plan chooses another form than plain f32. Train from what it
   * decodes to.
   */
  form?: FormFile;
  /** Id of the assignment. Status, update, evaluation and failure are sent under it. */
  id: AssignmentId;
  /** Id of the job. */
  job: JobId;
  /** Name of the job, by which an app asks the SDK for its model. */
  job_name?: Name;
  /** SHA-256 of that version's plain f32 file. */
  model_sha256: Sha256Hash;
  /** Model version to train from or to evaluate. */
  model_version: number;
  /**
   * The URLs of the coordinators that add up the parts of the update, in the order of the parts; null
   * for the one that the client knows. Any other coordinator takes a part as well. Absent where an
   * update is one body.
   */
  owners?: (string | null)[];
  /** Model, training settings and codec. */
  plan: Plan;
  /** The part of a relay in the round. Absent for clients. */
  relay?: RelayTerms;
  /** Number of the round in its job, from 1. */
  round: number;
  /** Seed of all random choices of the client in this round. */
  seed: Seed;
  /**
   * The last model deltas up to that version, at most 3, in ascending order. A client whose model has
   * the `base_sha256` of one of them downloads only that delta and those after it.
   */
  steps?: ModelDeltaFile[];
  /** Training, evaluation or description. */
  task: Task;
}

/** State of a device at a check-in. */
export interface DeviceState {
  /** Charge of the battery in percent, 0 to 100. Absent without a battery. */
  battery_percent?: number;
  /** Whether the battery is being charged. Absent if unknown. */
  charging?: boolean;
  /** Number of training examples on the device that have no name. Those of named sets are not among them. */
  examples: number;
  /** Whether the network connection is metered. Absent if unknown. */
  metered?: boolean;
}

/** Settings of `dgc`. */
export interface Dgc {
  /**
   * Largest L2 norm of a delta; a longer one is scaled down before it is accumulated. 0 disables
   * clipping. For N clients per round the paper uses the largest norm of their sum, divided by the
   * square root of N. Default: 0.
   */
  clip?: number;
  /** Share of the values that is sent after the warm-up, above 0 and at most 1. Default: 0.001. */
  density?: number;
  /** Momentum m, at least 0 and below 1. Default: 0.9. */
  momentum?: number;
  /**
   * Whether the momentum of a value becomes zero when the value is sent (momentum factor masking).
   * Default: true.
   */
  momentum_masking?: boolean;
  /** Age in rounds after which a device drops its residual and its momentum. Default: 100. */
  residual_age_rounds_max?: number;
  /** Encoding of the values that are sent. Default: `f16`. */
  values?: SparseValues;
  /**
   * Rounds of the warm-up, in which the density falls from 0.25 to `density`. At most 10,000. Default:
   * 4.
   */
  warm_up_rounds?: number;
}

/** The 8-bit differences between a release and one before it. */
export interface Difference {
  /** SHA-256 of the file that they are added to. */
  base_sha256: Sha256Hash;
  /** Length of that body. */
  bytes: number;
  /** Its number, which the header of the file names. */
  number: number;
  /** The release that results. */
  release: ReleaseId;
  /** SHA-256 of the body as it is sent, compressed or not. */
  sha256: Sha256Hash;
}

/** What the weighted sum of a buffer is divided by. */
export type Divisor = "count" | "weights";

/** Encoding of downloads (`[download]` of a job file). */
export interface Download {
  /** Form in which training clients and evaluators download the model. Default: `f32`. */
  codec?: ModelForm;
  /**
   * Whether a client that has an earlier version downloads only the 8-bit model deltas since then. The
   * coordinator adds the same rounded delta to its model, so both stay identical. Default: false.
   */
  delta?: boolean;
}

/** Settings of `eden`. */
export interface Eden {
  /** Bits per value, 1 to 4. Default: 1. */
  bits?: number;
}

/** Eligibility rules: which clients may train (`[eligibility]`). */
export interface Eligibility {
  /** Attributes that a client must have, with these values. Default: none. */
  attributes?: Record<string, string>;
  /** Fewest training examples that a client must have. Default: 1. */
  examples_min?: number;
  /** Rounds that must pass before a client is drawn again. Default: 0, it may be drawn in every round. */
  separation_rounds?: number;
  /** Clients that take no part, by id, at most 1,000. Default: none. */
  without?: ClientId[];
}

/** How a category is fed. */
export type Encoding = "one_hot" | "code";

/** A kind of database. */
export type Engine = "sqlite" | "postgres";

/** Enrolment of a device or silo as a client. */
export interface EnrolRequest {
  /** What the platform says about the device, for the operator's attestation webhook. */
  attestation?: Attestation;
  /** Attributes of the client. */
  attributes?: Attributes;
  /**
   * Requests a certificate: a PKCS #10 request in PEM, as `POST /device/v1/certificate` takes it. The
   * coordinator remembers the key: no other key can be certified for this client later. Required where
   * clients are identified by certificates alone.
   */
  certificate_request?: string;
  /** The consent with which the client takes part, for the operator's records. */
  consent?: Consent;
}

/** Response to an enrolment. */
export interface EnrolResponse {
  /** The certificate, if one was requested and the coordinator's listener asks for certificates. */
  certificate?: IssuedCertificate;
  /**
   * Id of the client: a new one, unless the request came with the expired certificate of a client and
   * for its key.
   */
  client: ClientId;
  /** Population of the client, given by the enrolment token. */
  population: Name;
  /** Bearer credential of the client. The coordinator stores only its hash and cannot show it again. */
  secret: Secret;
}

/** The epsilons of a promise. */
export interface EpsilonPair {
  /**
   * Against those who also know who took part in which round; with `distributed`, against the
   * coordinator as well, which sees the sum of each group.
   */
  cohorts: number;
  /** Against those who see the models, and not who took part. */
  models: number;
}

/** One number of an answer. */
export interface Estimate {
  /** Upper end of the 95 % interval of the noise. */
  high?: number;
  /** What it is: a bin, a category, a share, a word, a group; `mean` and `deviation` of a column. */
  label: string;
  /** Lower end of the 95 % interval of the noise. */
  low?: number;
  /** The number; absent where too few rows answered for the noise. */
  value?: number;
}

/** Who evaluates the global model. */
export type EvaluationPlace = "clients" | "coordinator";

/** Evaluation of the global model (`[evaluation]`). */
export interface EvaluationPolicy {
  /**
   * Attributes of evaluators, which then do not train. Default: none, and every client that may train
   * may also evaluate.
   */
  attributes?: Record<string, string>;
  /** Time from the draw of the evaluators to the deadline, in milliseconds. Default: 300,000. */
  deadline_ms?: number;
  /**
   * Committed rounds between evaluated versions. The last version of a job is always evaluated. Default:
   * 1.
   */
  every_rounds?: number;
  /**
   * Of a job that only evaluates: the models, 1 to 20, each as `job:version` with the name or id of a
   * job of the same population. They have the parameters of this job's model. Left out with
   * `initial_model = "upload"`.
   */
  models?: string[];
  /**
   * Whether the job only evaluates: fixed models, one after the other, without any training. It is
   * complete when each has been evaluated or abandoned. Default: false.
   */
  only?: boolean;
  /** Clients drawn per report of `reports_goal`, 1 to 10. Default: 1. */
  over_selection?: number;
  /**
   * Reports after which an evaluation closes before its deadline; as many clients are drawn anew for
   * each evaluation. Default: every client that may evaluate and is here takes part, at most 100. Of
   * more, the same ones take part each time.
   */
  reports_goal?: number;
  /** Fewest reports for a result. An evaluation with fewer at its deadline is abandoned. Default: 1. */
  reports_min?: number;
  /** Longest wait for available clients, in milliseconds. Default: 300,000. */
  selection_timeout_ms?: number;
  /**
   * Who evaluates. Default: `clients`. With `coordinator`, an evaluation waits for its test set for
   * `selection_timeout_ms`, and settings of clients and reports have no meaning.
   */
  where?: EvaluationPlace;
}

/** Result of an evaluation on one client. */
export interface EvaluationReport {
  /** Share of correctly classified examples, 0 to 1. Absent for regression. */
  accuracy?: number;
  /** Counts by class. Absent for regression, and for more than 1,000 classes. */
  classes?: ClassCounts;
  /** Time spent in evaluation, in milliseconds. */
  evaluate_ms: number;
  /** Number of examples evaluated: the weight of the report. */
  examples: number;
  /** Mean loss per example, at most 1e12 in magnitude. */
  loss: number;
  /** Named scalars of the evaluation. */
  metrics?: Metrics;
}

/** An event of a job: a change of phase or state. The round or assignment itself has the details. */
export interface Event {
  /** Id of the assignment. Absent for events of the round or job. */
  assignment?: AssignmentId;
  /** Time of the event. */
  at_ms: number;
  /** The new phase of the round, or the new state of the assignment or job. */
  became: string;
  /** The reason, where there is one. */
  cause?: string;
  /** Id of the job. */
  job: JobId;
  /** Number of the round. Absent for events of the job itself. */
  round?: number;
  /** Increases by one with each event of the job. */
  sequence: number;
  /** Task of the round. Present whenever `round` is. */
  task?: Task;
}

/** How often the members of a ring add up. */
export type Every =
  | "round"
  | {
      /**
       * After so many optimiser steps, and after the last one: members go on with the mean of their models,
       * so that all of them have the same model. 1 is synchronous data parallelism. 1 to 1,000,000.
       */
      steps: number;
    };

/** What a client has of one example set. */
export interface ExampleSet {
  /** Number of training examples. Of a relay: clients behind it that have the set. */
  examples: number;
  /**
   * What the set's table has in common with others, as `schema` of the check-in for the examples without
   * a name.
   */
  schema?: string;
}

/** The exchanges within a training. All members make the same ones. */
export interface Exchange {
  /** Optimiser steps after which members exchange. They do it after the last step, too. */
  every: number;
  /**
   * How each member mixes its model with those of its neighbours. Absent where each goes on with the
   * mean of all members' models.
   */
  gossip?: Gossip;
}

/** The reason why a client gave up. */
export type FailureReason =
  | "interrupted"
  | "out_of_memory"
  | "no_data"
  | "diverged"
  | "does_not_fit"
  | "privacy"
  | "other";

/** Report of a client that gives up its assignment. */
export interface FailureReport {
  /** Explanation for the operator, at most 1024 bytes. */
  detail?: string;
  /**
   * Kind of failure. The coordinator takes one that it does not know, such as that of a newer SDK, for
   * `other`.
   */
  reason: FailureReason;
}

/** The enrolments with one token on one day, as one row. */
export interface FoldedEntries {
  /** Number of entries, all those of the day. */
  entries: number;
  /** Time of the first one. */
  first_at_ms: number;
}

/** The file of a model in the form of its job. */
export interface FormFile {
  /** Length of that body. */
  bytes: number;
  /** Encoding of the model. */
  form: ModelForm;
  /** SHA-256 of the body as it is sent, compressed or not. */
  sha256: Sha256Hash;
}

/** Which form. */
export type Format = "json" | "csv";

/** Mixes of members with their neighbours in a graph. */
export interface Gossip {
  /** Time for which members go on training and mixing while the coordinator is away, in milliseconds. */
  alone_ms: number;
  /** How models travel. */
  codec: MixCodec;
  /** Who mixes with whom. */
  graph: Graph;
  /** Mixes of an exchange. */
  mixes: number;
}

/** Who mixes with whom. */
export type Graph =
  | "ring"
  | "torus"
  | "exponential"
  | {
      /**
       * Each member with so many others, drawn with the seed of the job; with all others if there are no
       * more.
       */
      random_regular: {
        /** Neighbours of a member, an even number from 2. */
        degree: number;
      };
    }
  | "edges";

/** Who adds up: the members of a group among themselves. */
export interface Group {
  /** Groups that a round may form before members send their own updates, 1 to 8. Default: 2. */
  attempts?: number;
  /**
   * Who mixes with whom where `graph` is `edges`: pairs of numbers of clients, at most 4,096. Members
   * that no path of edges connects are joined as in a ring.
   */
  edges?: number[][];
  /**
   * Share of `deadline_ms` after which a group forms with those that are ready, 0.1 to 0.9. Default:
   * 0.6.
   */
  form_by?: number;
  /** Longest silence of a neighbour that owes a frame, in milliseconds, 100 to 600,000. Default: 10,000. */
  frame_ms?: number;
  /**
   * Members round the integers that they add up to so many bits, on a grid that they agree on first, 6
   * to 16: 8 bits are about 1.2 bytes a value instead of 3.4 to 5.6. Default: they add up the integers
   * of their updates.
   */
  grid_bits?: number;
  /** What becomes of two neighbours that cannot reach each other. Default: `direct`. */
  links?: Links;
  /** Who is next to whom. Default: `enrolment`. */
  order?: Order;
  /**
   * Share of `deadline_ms` after which members send their own updates to the coordinator, above
   * `form_by` and at most 0.95. Default: 0.8.
   */
  star_from?: number;
  /** How members are connected. */
  topology: Topology;
}

/** The reason why a group has no sum. */
export type GroupFailure =
  | "too_few_members"
  | "too_few_survivors"
  | "too_few_signatures"
  | "too_few_shares"
  | "false_shares"
  | "norm"
  | "stopped"
  | "round_ended"
  | "fault";

/** Id of a group, whose members' updates are summed under masks. */
export type GroupId = string;

/**
 * Noise of the sum of a group, as standard deviations. The members that are sure to survive and to be
 * honest add it together.
 */
export interface GroupNoise {
  /**
   * Of the number of updates within the clip, in updates; absent with a fixed clip, which nobody counts
   * for.
   */
  count?: number;
  /** Of a value, in clips. */
  values: number;
}

/** How far a member of a group came. */
export type GroupProgress = "joined" | "shared" | "masked" | "signed" | "opened" | "lost";

/** The stage of a group, whose members mask one sum together. A group moves down this list, never up. */
export type GroupStage = "sharing" | "masking" | "agreeing" | "unmasking" | "summed" | "failed";

/** Who is trusted to tell all members of a group the same: who the others are, and who survived. */
export type GroupTrust = "honest" | "signed";

/** How a job is: one line of what there is to say. */
export interface Health {
  /** What it is about. */
  kind: HealthKind;
  /** What an operator can do about it. Absent when nothing needs to be done. */
  remedy?: string;
  /** How urgently the job needs attention. */
  severity: Severity;
  /** The cause in one sentence, for people. */
  text: string;
}

/** What the health of a job is about. */
export type HealthKind =
  | "fine"
  | "ended"
  | "paused"
  | "awaiting_model"
  | "no_driver"
  | "rounds_abandoned"
  | "waiting_for_clients"
  | "waiting_for_evaluators"
  | "not_measured"
  | "class_shut_out"
  | "cannot_follow"
  | "listeners"
  | "other_tables"
  | "loss_rises"
  | "disk_fills";

/** A height and a width, as a pair or as one number for both. */
export type HeightWidth = number | number[];

/** The release that a client has of a channel. */
export interface HeldRelease {
  /** The channel. */
  channel: Name;
  /** Job that made the model. */
  job_name: Name;
  /** Number of the release in the channel. */
  number: number;
  /** Since when the client says that it has it. */
  since_ms: number;
  /** Version in that job. */
  version: number;
}

/** Settings of `hierarchical`. */
export interface Hierarchical {
  /** Values per block: 8, 16 or 32, which take 1.25, 0.63 or 0.31 bits each. Default: 16. */
  block?: number;
}

/**
 * Images as inputs: each value of a pixel becomes `(value - low) / (high - low)`, then `(it - mean) /
 * deviation`.
 */
export interface Image {
  /** Deviation of each channel after scaling to 0 to 1; one value for all. Default: 1. */
  deviation?: number[];
  /** Mean of each channel after scaling to 0 to 1; one value for all. Default: 0. */
  mean?: number[];
  /** The values of black and of full intensity, `[0.0, 255.0]` for bytes. */
  range: number[];
}

/** Source of model version 0. */
export type InitialModel = "random" | "upload";

/** What the network of a job is fed, and what its outputs mean. */
export interface Inputs {
  /** The columns of a table, in the order in which the network reads them. */
  columns?: Column[];
  /** Images: how the values of pixels become inputs. */
  image?: Image;
  /**
   * Who fixes means, deviations and replacements. Default: the job file; a column without a mean is fed
   * as it is.
   */
  standardize?: Standardize;
  /** What the network predicts. */
  target?: ModelTarget;
  /** Texts: which vocabulary the token ids belong to. */
  tokens?: Tokens;
}

/** A client's certificate. */
export interface IssuedCertificate {
  /**
   * The certificate of the population's CA in PEM. Groups whose members sign trust it, unless their app
   * has another.
   */
  authority: string;
  /** The certificate in PEM. Its CA signs directly, so there is no chain. */
  certificate: string;
  /** Time until it expires, in milliseconds. A duration, since device clocks are often wrong. */
  expires_in_ms: number;
}

/** A job. */
export type Job = JobHead & {
  /** The job file, with the seed that the coordinator drew and all changes since. */
  file: JobFile;
  /** How the job is: what there is to say, most severe first. Absent in the answer to a change. */
  health?: Health[];
  /** SHA-256 of the plan that its clients follow. */
  plan_hash: Sha256Hash;
  /** How far it has come. Absent in lists and in the answer to a change. */
  progress?: Progress;
};

/** The answers of an analysis so far. */
export interface JobAnswers {
  /** The answers, in the order of the queries. A query has none before the first round. */
  answers: Answer[];
  /**
   * Clients whose answers count in the first round. Of an analysis with privacy it is the number that
   * took part, which noise does not hide.
   */
  clients: number;
  /** Rounds that were committed. */
  rounds: number;
  /** Rounds that the queries take; 0 for a job that asks none. */
  rounds_needed: number;
}

/** A job file that was checked without creating the job. */
export interface JobDraft {
  /** The job with all defaults filled in. */
  job: JobFile;
  /** The layers of its model, in order. Empty for an app's own network. */
  layers?: LayerRow[];
  /** Number of parameters of its model. */
  parameters: number;
  /** What its privacy comes to. */
  privacy?: JobPrivacy;
  /** What is allowed and probably not meant, in sentences for people. */
  remarks?: string[];
  /** The same job as a TOML file. */
  toml: string;
}

/** A job file: model, clients, training and rounds of a job. */
export interface JobFile {
  /** How updates become the next model version. */
  aggregation?: Aggregation;
  /** Questions to the clients' tables, in the place of a model that they train. Default: none. */
  analysis?: Analysis;
  /**
   * Parts of the data that several clients hold, so that a round does without some of them. Default:
   * none, clients train on what they have.
   */
  coded?: Coded;
  /**
   * The example set that clients train on: those draw work that have one of this name. Default: the
   * examples without a name.
   */
  data?: Name;
  /** Encoding of downloads. */
  download?: Download;
  /** Which clients may train. */
  eligibility?: Eligibility;
  /** Evaluation of the global model, on clients or on the coordinator. Default: none. */
  evaluation?: EvaluationPolicy;
  /** Who adds up the updates: the members of a group among themselves. Default: the coordinator. */
  group?: Group;
  /** Source of model version 0. Default: `random`. */
  initial_model?: InitialModel;
  /**
   * The network as layers, or the names and shapes of the parameters of an app's own network; and which
   * parameters are shared, frozen and personal. An analysis has none: its answers are the model.
   */
  model: JobModel;
  /** Name of the job, unique in its population. */
  name: Name;
  /** Population whose clients train the model. */
  population: Name;
  /** Differential privacy. Default: none, and models may tell what single clients sent. */
  privacy?: Privacy;
  /** Which model versions and how much history are kept. Default: everything. */
  retention?: Retention;
  /** When a training round opens, closes and is abandoned. */
  round?: RoundPolicy;
  /** When training rounds may start. Default: at any time. */
  schedule?: Schedule;
  /**
   * Secure aggregation: the coordinator adds up updates that it cannot read. Default: none, it reads
   * each update.
   */
  secure_aggregation?: SecureAggregation;
  /** Seed of all random choices of the job. Default: drawn by the coordinator. */
  seed?: Seed;
  /** When the job is complete. Default: never. */
  stop?: StopPolicy;
  /** Local training on a client. An analysis has none. */
  training?: Training;
  /** Encoding and limits of updates. */
  update?: UpdatePolicy;
}

/** What lists and details say of a job. */
export interface JobHead {
  /** Time at which the job was archived. Absent unless it is. */
  archived_at_ms?: number;
  /** Time of creation. */
  created_at_ms: number;
  /** Time at which the job stopped or completed. */
  ended_at_ms?: number;
  /** Id of the job. */
  id: JobId;
  /** Newest model version. Absent while the job waits for the upload of version 0. */
  model_version?: number;
  /** Notes for people. */
  notes?: string;
  /** Number of parameters of the model. */
  parameters: number;
  /** Number of training rounds committed so far. */
  rounds_committed: number;
  /**
   * Time before which no training round opens, because of the schedule or the pause after abandoned
   * rounds. Absent if a round may open now, or only after an operator acts.
   */
  rounds_not_before_ms?: number;
  /** Number of training rounds opened so far. */
  rounds_opened: number;
  /** State of the job. */
  state: JobState;
  /** Tags, in order. */
  tags?: Name[];
}

/** Id of a job. */
export type JobId = string;

/** The network as layers, or the names and shapes of the parameters of an app's own network. */
export type JobModel =
  | {
      /** Parameters that nobody changes. */
      frozen?: string[];
      input: number[];
      inputs?: Inputs;
      layers: Layer[];
      /** The terms under which the model may be used. */
      license?: string;
      /** Parameters that never leave a device. */
      personal?: string[];
      /** Parameters that clients train together, as names with stars. */
      shared?: string[];
    }
  | {
      /** Parameters that nobody changes. */
      frozen?: string[];
      inputs?: Inputs;
      /** The terms under which the model may be used. */
      license?: string;
      parameters: ParameterSpec[];
      /** Parameters that never leave a device. */
      personal?: string[];
      /** Parameters that clients train together, as names with stars. */
      shared?: string[];
    };

/** A job with its open rounds and its progress. */
export interface JobOverview {
  /** Accuracy of the newest evaluated version, 0 to 1. */
  accuracy?: number;
  /** Accuracy of the best evaluated version, 0 to 1. */
  best_accuracy?: number;
  /** What the best accuracy was measured on. Absent without one. */
  best_measured_on?: MeasuredOn;
  /** Training round that made the best evaluated version. */
  best_round?: number;
  /** Bytes that clients downloaded in all rounds. */
  bytes_down: number;
  /** Bytes that clients uploaded in all rounds. */
  bytes_up: number;
  /** Time until the job has committed the rounds of its stop policy, as in the progress of the job. */
  ends_in_ms?: number;
  /** How the job is: what there is to say, most severe first. At least one line. */
  health: Health[];
  /** Summary of the job. */
  job: JobSummary;
  /** The training round that ended last. */
  last_round?: Round;
  /** Loss of the newest evaluated version. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /** Open rounds, of training and evaluation. */
  open_rounds: OpenRound[];
  /** At most 60 points of the learning curve: round, accuracy, loss. */
  spark: [number, number | null, number | null][];
}

/** The privacy of a job: its terms, what it has spent, its ledger. */
export interface JobPrivacy {
  /** Whether the budget allows no further round. */
  is_spent: boolean;
  /** The releases, oldest first. */
  ledger: LedgerEntry[];
  /**
   * The L2 norm of the noise in the last model, divided by the longest way that the model can have gone:
   * all steps in one direction, each as long as the clip. Above 1, the model is mostly noise.
   */
  noise_ratio: number;
  /** What was spent; absent in a job with a `test_key`, whose noise everybody can repeat. */
  spent?: EpsilonPair;
  /** The terms of the job, with everything that the coordinator filled in. */
  terms: Privacy;
  /** Units without which the job cannot have all its versions. */
  units_needed: number;
}

/** The privacy of a job, if its file has `[privacy]`. */
export interface JobPrivacyState {
  /** Absent in a job whose models may tell what single clients sent. */
  privacy?: JobPrivacy;
  /** The budget that the jobs of the population share; absent where they share none. */
  shared?: BudgetState;
}

/** The state of a job. */
export type JobState = "awaiting_model" | "running" | "relaying" | "paused" | "stopped" | "completed";

/** Summary of a job in a list. */
export type JobSummary = JobHead & {
  /** Codec of the updates. */
  codec: Codec;
  /** Learning rate of the clients' optimizer. */
  learning_rate: number;
  /** Name of the job. */
  name: Name;
  /** Population whose clients train the model. */
  population: Name;
  /** When the job is complete. */
  stop: StopPolicy;
};

/** A layer of a network. Settings that are left out have the defaults of PyTorch. */
export type Layer =
  | {
      /** Whether `b` is added. Default: true. */
      bias?: boolean;
      kind: "linear";
      /** Length of the last dimension of the output. */
      out_features: number;
    }
  | {
      /** Weight of the product is `alpha / rank`. Default: the rank. */
      alpha?: number;
      /** Whether `b` is added. Default: true. */
      bias?: boolean;
      kind: "low_rank";
      /** Length of the last dimension of the output. */
      out_features: number;
      /** Rows of A and columns of B. */
      rank: number;
    }
  | {
      /** Whether a learned bias is added to each channel. Default: true. */
      bias?: boolean;
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "conv2d";
      /** Number of output channels. */
      out_channels: number;
      /** Zeros around the input. Default: `valid`, none. */
      padding?: Padding;
      /** Distance between windows. Default: 1. */
      stride?: HeightWidth;
    }
  | {
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "max_pool2d";
      /** Distance between windows. Default: the size of the window. */
      stride?: HeightWidth;
    }
  | {
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "avg_pool2d";
      /** Distance between windows. Default: the size of the window. */
      stride?: HeightWidth;
    }
  | {
      kind: "relu";
    }
  | {
      kind: "gelu";
    }
  | {
      kind: "tanh";
    }
  | {
      kind: "sigmoid";
    }
  | {
      kind: "flatten";
    }
  | {
      kind: "dropout";
      /** p, in `[0, 1)`. */
      probability: number;
    }
  | {
      /** Added to the variance for numerical stability. Default: 1e-5. */
      epsilon?: number;
      kind: "layer_norm";
    }
  | {
      /** Added to the variance for numerical stability. Default: 1e-5. */
      epsilon?: number;
      kind: "batch_norm";
      /** Weight of a batch in the running statistics, 0 to 1. Default: 0.1. */
      momentum?: number;
    }
  | {
      kind: "embedding";
      /** Length of each vector. */
      size: number;
      /** Size of the vocabulary, at most 2^24. Ids are `0..tokens`. */
      tokens: number;
    }
  | {
      /** Length of the hidden state. */
      hidden_size: number;
      kind: "lstm";
      /**
       * Whether the output is the hidden state after every time step, `[time, hidden_size]`, instead of the
       * last one. Default: false.
       */
      return_sequences?: boolean;
    }
  | {
      /** Length of the hidden state. */
      hidden_size: number;
      kind: "gru";
      /**
       * Whether the output is the hidden state after every time step, `[time, hidden_size]`, instead of the
       * last one. Default: false.
       */
      return_sequences?: boolean;
    };

/** A layer of a model. */
export interface LayerRow {
  /** Kind of the layer in the job file. */
  kind: string;
  /** Shape of its output for one example. */
  output: number[];
  /** Number of its parameters, with the running statistics of batch norm. */
  parameters: number;
}

/** The temporary right of one coordinator to drive a job. */
export interface Lease {
  /** Time at which the lease ends unless it is renewed. */
  expires_at_ms: number;
  /** Id of the job. */
  job: JobId;
  /** How often the job's coordinator has changed. */
  token: number;
}

/**
 * An entry of the privacy ledger of a job: one sum that was released with noise. Its members are
 * ordered by name, which the canonical JSON depends on.
 */
export interface LedgerEntry {
  /**
   * When the round closed, before the noise was drawn; with `distributed`, when a group began to open
   * its sum.
   */
  at_ms: number;
  /** SHA-256 of the entry: of its canonical JSON without this member. */
  hash: Sha256Hash;
  /** Which noise was added. */
  mechanism: Mechanism;
  /** Standard deviation of the noise, in clips; with `distributed` that of the sum of one group. */
  noise_multiplier: number;
  /** Number of the entry, from 1 without gaps. */
  number: number;
  /** Most updates of one unit so far, this round included. */
  participations: number;
  /** Hash of the entry before; zeros for the first. */
  previous: Sha256Hash;
  /** Chance with which a unit was drawn, where the promise counts on it. */
  rate?: number;
  /** The training round. */
  round: number;
  /**
   * What one unit can change, in clips: in all releases of the job together with `blt`, else in one.
   * With `distributed` it is divided by the root of the fewest groups of a version, whose noise comes
   * together there.
   */
  sensitivity: number;
  /** The model version that the round was to make. */
  version: number;
}

/** The ways between two members. */
export type Links = "direct" | "any";

/** The load of one coordinator at one time. */
export interface LoadSample {
  /** Time of the sample. */
  at_ms: number;
  /** Check-ins per second, averaged over the minute before. */
  checkins_per_s: number;
  /** Size of the database in bytes. Absent where it could not be read. */
  database_bytes?: number;
  /** Memory of the process in bytes. Absent where the system does not tell. */
  memory_bytes?: number;
  /** Accepted updates per second, averaged over the minute before. */
  updates_per_s: number;
}

/** Request of a browser for a session. */
export interface Login {
  /** Name of the account. */
  account: string;
  /** Password of the account. */
  password: string;
}

/** Loss function, averaged over the batch. */
export type Loss = "cross_entropy" | "mse" | "other";

/** Masking of the updates of a round. All members of a group have the same. */
export interface Masking {
  /**
   * Whether members of a group may have trained different versions of the model. What they agree on then
   * names no model, so that members cannot tell whether each was given another one.
   */
  any_version?: boolean;
  /** L2 norm to which the delta is clipped in this round. */
  clip: number;
  /** Share of the members that may work together with a dishonest coordinator. */
  corrupt: number;
  /** Share of the members that may be lost after they joined. */
  dropouts: number;
  /** Fewest members of a group. A client gives no update to a smaller one. */
  group_min: number;
  /** Share of the values that are sent. */
  keep: number;
  /** Steps of a value on either side of zero, as the root of the mean square of a clipped update. */
  levels: number;
  /** The noise that members add; none where sums are exact. */
  noise?: GroupNoise;
  /** Who is trusted to form groups. */
  trust: GroupTrust;
}

/** What an accuracy was measured on, and how sure it is. */
export interface MeasuredOn {
  /** Number of clients whose reports have one; 0 where the coordinator evaluated. */
  clients: number;
  /** Number of examples: the sum of the weights of the reports that have an accuracy. */
  examples: number;
  /** Upper end of the 95 % interval, 0 to 1. */
  high: number;
  /** Lower end of the 95 % interval (Wilson's), 0 to 1. The best version, `[stop]` and targets go by it. */
  low: number;
  /**
   * The accuracy that a tenth of the clients do not exceed (nearest rank). Absent with fewer than two
   * clients.
   */
  p10?: number;
  /** Lowest accuracy of a client. Absent with fewer than two clients. */
  worst?: number;
}

/** Which noise is added to the sums. */
export type Mechanism = "blt" | "gaussian" | "distributed" | "local";

/** A member of a stale-synchronous job. */
export interface MemberClock {
  /** Number of the client in its population. */
  client_number: number;
  /** Updates that it has contributed, counted from the clock at which it came. */
  clock: number;
  /** Whether it is at work now. */
  is_working: boolean;
  /** Time since which it could begin its next work and does not wait for it. Absent unless that is so. */
  missed_at_ms?: number;
}

/** A named scalar over the rounds of a job. */
export interface MetricCurve {
  /** Name of the metric. */
  name: MetricName;
  /** Rounds in order: the first, the last, and the largest and smallest of each interval in between. */
  points: MetricPoint[];
  /** Number of rounds that have it, before the reduction. */
  rounds: number;
  /** Whether training or evaluations reported it. */
  task: Task;
}

/** Name of a metric; not `accuracy`, `examples` or `loss`. */
export type MetricName = string;

/** A named scalar of one round. */
export type MetricPoint = MetricSummary & {
  /** Time at which the round ended. */
  at_ms: number;
  /** Number of the round. */
  round: number;
};

/** A named scalar of a round: its mean, weighted by examples, and its quantiles over clients. */
export interface MetricSummary {
  /** Largest value. */
  max: number;
  /** Mean, weighted by examples. */
  mean: number;
  /** Smallest value. */
  min: number;
  /** Name of the metric. */
  name: MetricName;
  /** The value that a tenth of the clients do not exceed (nearest rank). */
  p10: number;
  /** The value that half of the clients do not exceed. */
  p50: number;
  /** The value that nine tenths of the clients do not exceed. */
  p90: number;
  /** Number of reports that have it. */
  reports: number;
}

/** Named scalars of a report: at most 32 finite numbers, at most 1e12 in magnitude. */
export type Metrics = Record<string, number>;

/** What becomes of missing values. */
export type MissingValues = "refuse" | "replace";

/** How the values of a model travel to a neighbour. */
export type MixCodec = "f32" | "int8";

/** When the updates of a job meet (`[round] mode`). */
export type Mode =
  | {
      kind: "synchronous";
    }
  | {
      /** Updates that make a version, 1 to 10,000. */
      buffer: number;
      /** Most clients that work at a time, 1 to 10,000. */
      concurrency: number;
      /** What the weighted sum of a buffer is divided by. Default: `count`. */
      divisor?: Divisor;
      /**
       * Updates of a client from one fetch of the model to the next, 1 to 1,000. In between it continues
       * from its own weights (Downpour SGD, Dean et al. 2012). Default: 1.
       */
      fetch_every?: number;
      kind: "buffered";
      /**
       * Most updates of one client in a buffer, 1 to 10,000: a quick client does not decide a version alone.
       * More than 1 is for fleets that are smaller than the buffer. Default: 1.
       */
      per_client?: number;
      /** Local trainings behind an update, 1 to 1,000. Default: 1. */
      push_every?: number;
      /** Largest number of versions that an update may be behind, at most 10,000. Default: 16. */
      staleness_max?: number;
      /** What a stale update weighs, as a factor of its examples. Default: polynomial with `a = 0.5`. */
      staleness_weight?: StalenessWeight;
    }
  | {
      kind: "stale_synchronous";
      /** Most members, 1 to 10,000. */
      members: number;
      /** How far a member may be ahead of the slowest one when it begins, at most 10,000. Default: 3. */
      slack?: number;
    };

/** The file of a model delta: the difference between a version and the one before it. */
export interface ModelDeltaFile {
  /** SHA-256 of the plain f32 file of the version before. */
  base_sha256: Sha256Hash;
  /** Length of that body. */
  bytes: number;
  /** SHA-256 of the delta's body as it is sent, compressed or not. */
  sha256: Sha256Hash;
  /** The version that results when the delta is added to the version before it. */
  version: number;
}

/** Encoding of a whole model. */
export type ModelForm = "f32" | "f16" | "int8";

/** What a network predicts: one of these classes, or a number. */
export interface ModelTarget {
  /** Names of the classes, in the order of the network's outputs. Empty for a number. */
  classes?: string[];
  /** Deviation of a number. Default: 1. */
  deviation?: number;
  /** Mean of a number. The network learns `(number - mean) / deviation`. Default: 0. */
  mean?: number;
  /** Name, as in the table's header. */
  name: string;
  /** Unit of a number, for people. */
  unit?: string;
}

/** A version of a job's model. */
export interface ModelVersion {
  /** Accuracy of its evaluation, 0 to 1. */
  accuracy?: number;
  /** Whether its evaluation is the best of the job. */
  best?: boolean;
  /** Length of that file in bytes. */
  bytes: number;
  /** Time at which the version was stored. */
  created_at_ms: number;
  /** Time at which the file was deleted under the job's retention policy. This entry stays. */
  deleted_at_ms?: number;
  /** Loss of its evaluation. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /** Time at which an operator pinned it. Retention keeps a pinned version. */
  pinned_at_ms?: number;
  /** Training round that made the version. Absent for version 0. */
  round?: number;
  /** SHA-256 of its plain f32 safetensors file. */
  sha256: Sha256Hash;
  /** Number of the version, from 0. */
  version: number;
}

/** The model versions to keep. */
export type ModelsKept =
  | "useful"
  | "all"
  | {
      /** The newest n versions. */
      last: number;
    }
  | {
      /** Every nth version: 0, n, 2n, and so on. */
      every: number;
    };

/** Count, sum and sum of squares of a column. */
export interface Moments {
  /** Number of values that are not missing. */
  count: number;
  /** Sum of their squares. */
  squares: string;
  /** Sum of the integers. */
  sum: string;
}

/** The name of a population, a job, a coordinator or an account. */
export type Name = string;

/** A client's next secret. The old one works until this one is used for the first time. */
export interface NewSecret {
  /** The coordinator stores only its hash and cannot show it again. */
  secret: Secret;
}

export type NoSettings = Record<string, never>;

/** A coordinator process. */
export interface Node {
  /** Name of the coordinator. */
  id: Name;
  /** Leases of the jobs that it drives. */
  leases: Lease[];
  /** Time of its last sign of life in the database. */
  seen_at_ms: number;
  /** The shards of sums that it adds up. */
  shards?: NodeShard[];
  /** Time at which it started. */
  started_at_ms: number;
  /** Whether it lives, by its lease. A dead one stays in the list for a day. */
  state?: NodeState;
  /** Where clients reach it, if it tells them. */
  url?: string;
  /** Release that it runs. */
  version: string;
}

/** A range of the parameters of a job whose updates one coordinator adds up. */
export interface NodeShard {
  /** Id of the job. */
  job: JobId;
  /** Number of the shard, from 0. */
  shard: number;
}

/** Whether a coordinator lives, by its lease. */
export type NodeState = "alive" | "late" | "dead";

/** Decays and weights of the two buffers of correlated noise, in multiples of 2^-32. */
export interface NoiseBuffers {
  /** With which weight each takes up the noise of a version. */
  omega: number[];
  /** By which each buffer decays from version to version. */
  theta: number[];
}

/** The largest L2 norm of an update: a number, or a table that derives it from recent rounds. */
export type NormMax = number | AdaptiveNorm;

/** What a running job requires of examples. */
export interface OpenJob {
  /** What an analysis asks. Absent for jobs that train. */
  analysis?: Analysis;
  /** The example set that it trains on. Absent: the examples without a name. */
  data?: Name;
  /** Shape of one input. Absent for an app's own network. */
  input?: number[];
  /** The columns of a table, as far as the job names them, and what it predicts. */
  inputs?: Inputs;
  /** Loss function: whether the targets are classes or values. */
  loss: Loss;
  /** Name of the job. */
  name: Name;
  /**
   * Shape of the network's output for one input; its last length is the number of classes. Absent for an
   * app's own network.
   */
  output?: number[];
}

/** The running jobs of a population, for an app that checks its examples before it enrols. */
export interface OpenJobs {
  /** The newest first, at most 100. */
  jobs: OpenJob[];
}

/** An open round with its cohort. */
export type OpenRound = Round & {
  /** At most 500 members of the cohort, ordered by client number. */
  cells: Cell[];
};

/** Optimiser. The formulas are those of `torch.optim` (PyTorch 2), so settings carry over. */
export type Optimizer =
  | {
      kind: "sgd";
      /** Learning rate, above 0. */
      learning_rate: number;
      /** Momentum, in `[0, 1)`. Default: 0. */
      momentum?: number;
      /** Nesterov momentum; requires a momentum above 0. Default: false. */
      nesterov?: boolean;
      /** Weight of the L2 penalty, which is added to the gradient. Default: 0. */
      weight_decay?: number;
    }
  | {
      /** Decay rate of the first moment, in `[0, 1)`. Default: 0.9. */
      beta1?: number;
      /** Decay rate of the second moment, in `[0, 1)`. Default: 0.999. */
      beta2?: number;
      /** Added to the denominator for numerical stability. Default: 1e-8. */
      epsilon?: number;
      kind: "adam";
      /** Learning rate, above 0. */
      learning_rate: number;
      /** Weight of the L2 penalty, which is added to the gradient. Default: 0. */
      weight_decay?: number;
    }
  | {
      /** Decay rate of the first moment, in `[0, 1)`. Default: 0.9. */
      beta1?: number;
      /** Decay rate of the second moment, in `[0, 1)`. Default: 0.999. */
      beta2?: number;
      /** Added to the denominator for numerical stability. Default: 1e-8. */
      epsilon?: number;
      kind: "adam_w";
      /** Learning rate, above 0. */
      learning_rate: number;
      /** Weight decay: each step multiplies the weights by 1 - learning_rate * weight_decay. Default: 0.01. */
      weight_decay?: number;
    };

/** Order of a list. */
export type Order = "asc" | "desc";

/** The newest rounds of a job, played again with other deadlines. */
export interface Outlook {
  /** Number of those that were abandoned for too few reports. */
  abandoned: number;
  /**
   * Number of assignments of which only a lower limit of the time is known: they had not reported when
   * their round closed. They count with the probability that the times of the others give them.
   */
  censored: number;
  /** The deadline of the job's next round, in milliseconds after the draw. */
  deadline_ms: number;
  /** The goal of the job's next round. */
  goal: number;
  /**
   * Longest known time of a report after the draw, in milliseconds. Longer deadlines than this gain
   * nothing that is known.
   */
  longest_ms: number;
  /** The fewest reports of the job's next round. */
  minimum: number;
  /** Deadlines, shortest first. Empty without rounds. */
  points: OutlookPoint[];
  /** Number of rounds that it is made of: at most the newest 20 with a deadline and with assignments. */
  rounds: number;
  /**
   * The shortest of these deadlines that abandons no more rounds than the longest one, and has 95 % of
   * its reports. Absent without reports.
   */
  suggested_ms?: number;
}

/** What one deadline would have done. */
export interface OutlookPoint {
  /** Rounds that would have been expected to end with fewer reports than the minimum. */
  abandoned: number;
  /** The deadline, in milliseconds after the draw of the cohort. */
  deadline_ms: number;
  /** Mean time from the draw to the close, in milliseconds. */
  lasts_ms: number;
  /** Expected reports per round, at most the goal. */
  reports: number;
  /** Expected reports of the round with the fewest, rounded down, even above the goal. */
  reports_min: number;
}

/** Overview of a deployment: populations and jobs. */
export interface Overview {
  /**
   * At most 100 jobs: first those that have not ended, then the others, each group newest first.
   * Archived ones only if they are asked for.
   */
  jobs: JobOverview[];
  /** Current time of that coordinator. Clients compute ages from it, not from their own clocks. */
  now_at_ms: number;
  /** Populations, ordered by name. */
  populations: Population[];
  /** Release of the coordinator that answers. */
  version: string;
}

/** Zeros around the input: a word, a number or a pair [height, width]. */
export type Padding = number | number[] | ("valid" | "same");

/** A parameter: one named tensor of a model. Name and layout follow PyTorch. */
export interface ParameterSpec {
  /** Name, such as `layers.0.weight`: 1 to 256 printable bytes, unique in the model. */
  name: string;
  /** Length of each dimension, at most 8 dimensions of at least 1. Empty for a scalar. */
  shape: number[];
}

/** A part that a client trains on. */
export interface PartTerms {
  /** The example set, as the client named it. */
  data: Name;
  /** What its update is multiplied by in a combination. 1 in a sum. */
  factor: number;
  /** Seed of all random choices of this training. All holders of the part have the same. */
  seed: Seed;
}

/** The phase of a round. A round moves down this list, never up. */
export type Phase = "selecting" | "training" | "aggregating" | "committed" | "abandoned";

/** The time that a round spent in one phase. */
export interface PhaseSpan {
  /** Beginning of the phase. */
  began_at_ms: number;
  /** End of the phase. Absent while it lasts. */
  ended_at_ms?: number;
  /** `selecting`, `training` or `aggregating`. */
  phase: Phase;
}

/**
 * A secret as people copy it. The bearer credential is its first part. An enrolment secret may be
 * followed by the SHA-256 of the coordinator's private CA: clients accept only certificates of this
 * CA.
 */
export type PinnedSecret = string;

/**
 * The plan of a job: what its clients do in a round. It is the same for all clients, but for the
 * weight.
 */
export interface Plan {
  /**
   * What the client's table is asked: its answer is the update, and nothing is trained. Absent in
   * trainings.
   */
  analysis?: Analysis;
  /**
   * How often the client takes the newest model and sends an update. Absent where each update is one
   * training from the newest model.
   */
  cadence?: Cadence;
  /** Codec of the updates. */
  codec: Codec;
  /**
   * Whether each client trains on the parts that its assignment names ([`Assignment::coded`]). Absent
   * otherwise.
   */
  coded?: boolean;
  /** Encoding of downloads. Absent for plain f32 models. */
  download?: Download;
  /** What the members of a group exchange while they train. Absent where they meet after their trainings. */
  exchange?: Exchange;
  /**
   * How updates are masked, so that the coordinator learns sums of groups alone. Absent where it reads
   * each update.
   */
  masking?: Masking;
  /**
   * The network as layers, or the names and shapes of the parameters of an app's own network; and which
   * parameters are shared, frozen and personal. An update carries the shared ones.
   */
  model: JobModel;
  /**
   * Largest L2 norm of an update as the coordinator decodes it. A client scales a larger delta down.
   * Absent if there is no bound that clients know.
   */
  norm_max?: number;
  /**
   * Whether the members of a group add up their updates among themselves, as [`crate::group`] says.
   * Absent where each sends its own to the coordinator.
   */
  ring?: boolean;
  /**
   * Into how many parts each update is cut, each of which is sent to the coordinator that its assignment
   * names. Absent where an update is one body.
   */
  shards?: number;
  /** Local training settings. */
  training: Training;
  /**
   * Largest weight of an update: the job's, or the number of examples that the client had at its
   * check-in if that is smaller. A client with more examples reports this number.
   */
  weight_max: number;
}

/** A population: the clients of one app or study. */
export interface Population {
  /** Number of enrolled clients. */
  clients: number;
  /** Time of creation. */
  created_at_ms: number;
  /** Name of the population. */
  name: Name;
  /** Number of clients that are here now: held by any coordinator until there is work, or at work. */
  online?: number;
  /** Those of them that are at work: with an open assignment, and heard of in the last five minutes. */
  working?: number;
}

/** The budget of a population, if it has one. */
export interface PopulationBudget {
  /** Absent in a population whose jobs share none. */
  budget?: BudgetState;
}

/**
 * Differential privacy of a job. `epsilon` and `delta` are enough: the rest follows from `[stop]
 * rounds`.
 */
export interface Privacy {
  /** The buffers of correlated noise. The coordinator finds them when it creates the job. */
  buffers?: NoiseBuffers;
  /**
   * L2 norm to which each update is clipped: a number, or a table for one that follows the updates.
   * Default: `{ start = 0.1, quantile = 0.5, rate = 0.2 }`.
   */
  clip?: Clip;
  /**
   * The chance that the promise does not hold, above 0 and at most 0.001. It belongs well below one over
   * the number of units.
   */
  delta: number;
  /**
   * The budget: the job ends before its models tell more about a unit than this, above 0 and at most
   * 100.
   */
  epsilon: number;
  /** Which noise is added. Default: `blt`. */
  mechanism?: Mechanism;
  /**
   * Standard deviation of the noise of a sum, divided by the clip, 0.01 to 1,000,000. Default: the least
   * with which the rounds of `[stop]` stay within the budget.
   */
  noise_multiplier?: number;
  /** Most updates of one unit in the whole job, 1 to 10,000. Default: 4. */
  participations_max?: number;
  /**
   * Most releases within the budget: of the whole job, or with `gaussian` and no sampling, of data of
   * one unit. The coordinator computes it when it creates the job.
   */
  releases_max?: number;
  /** Whether the secret draw of cohorts counts as protection. Default: no. */
  sampling?: Sampling;
  /**
   * Versions that are committed between two updates of a unit, at least. Default: `[stop] rounds`
   * divided by `participations_max`.
   */
  separation?: number;
  /** Key of all noise, 64 hexadecimal digits, for tests: the same model again. Such a job has no privacy. */
  test_key?: string;
  /** Who is protected. Default: `client`. */
  unit?: Unit;
}

/** An error response (RFC 9457). */
export interface Problem {
  /** This occurrence of the error, and what the caller can do about it. */
  detail: string;
  /** Id of the request in the coordinator's log; also in the header `x-request-id`. */
  request_id?: string;
  /** Time to wait before a retry, in milliseconds. Absent where a retry cannot succeed. */
  retry_after_ms?: number;
  /** The HTTP status of the response. */
  status: number;
  /** Summary of the type, the same for every occurrence. */
  title: string;
  /** The kind of error, for programs. */
  type: ProblemType;
}

/** The kind of error, for programs. */
export type ProblemType =
  | "urn:tributary:problem:malformed"
  | "urn:tributary:problem:unauthorized"
  | "urn:tributary:problem:certificate-required"
  | "urn:tributary:problem:certificate-invalid"
  | "urn:tributary:problem:certificate-expired"
  | "urn:tributary:problem:attestation-refused"
  | "urn:tributary:problem:forbidden"
  | "urn:tributary:problem:client-revoked"
  | "urn:tributary:problem:not-found"
  | "urn:tributary:problem:method-not-allowed"
  | "urn:tributary:problem:timeout"
  | "urn:tributary:problem:name-taken"
  | "urn:tributary:problem:wrong-state"
  | "urn:tributary:problem:update-conflict"
  | "urn:tributary:problem:upload-offset"
  | "urn:tributary:problem:upload-superseded"
  | "urn:tributary:problem:digest-mismatch"
  | "urn:tributary:problem:assignment-closed"
  | "urn:tributary:problem:group-failed"
  | "urn:tributary:problem:group-closed"
  | "urn:tributary:problem:update-stale"
  | "urn:tributary:problem:deleted"
  | "urn:tributary:problem:too-large"
  | "urn:tributary:problem:range-not-satisfiable"
  | "urn:tributary:problem:update-rejected"
  | "urn:tributary:problem:job-file-invalid"
  | "urn:tributary:problem:model-invalid"
  | "urn:tributary:problem:test-set-invalid"
  | "urn:tributary:problem:too-many-requests"
  | "urn:tributary:problem:internal"
  | "urn:tributary:problem:unavailable";

/** How far a job has come. */
export interface Progress {
  /** Accuracy of the newest evaluated version, 0 to 1. */
  accuracy?: number;
  /** Whether the job has committed all its rounds and ends with the evaluation that is still waited for. */
  awaits_evaluation?: boolean;
  /** The best evaluated version. */
  best?: BestVersion;
  /** Bytes that clients downloaded in all rounds. */
  bytes_down: number;
  /** Bytes that clients uploaded in all rounds. */
  bytes_up: number;
  /**
   * Time until the job has committed the rounds of its stop policy, at the median pace of its last
   * rounds, in milliseconds. Absent if the job does not run, has no such limit or a schedule, has not
   * had two rounds, or has them all.
   */
  ends_in_ms?: number;
  /** Loss of the newest evaluated version. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /**
   * How many updates a round can use. Absent unless the job runs, before five rounds of at least two
   * updates have ended, and for rules without a mean.
   */
  useful_updates?: UsefulUpdates;
}

/** Settings of `qsgd`. */
export interface Qsgd {
  /** Values per norm, 16 to 262,144. Buckets do not cross parameters. Default: 512. */
  bucket?: number;
  /**
   * Number of levels above zero (s in the paper), 1 to 16,384. Doubling it at least halves the noise and
   * costs less than one bit per value. Default: 4.
   */
  levels?: number;
}

/** One question to the clients' tables. Rows without a usable value in its column do not count. */
export type Query =
  | {
      /** Column that is read. */
      column: string;
      kind: "count";
      /** Name of the answer. */
      name: Name;
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
      /** The values that count. */
      values: string[];
    }
  | {
      /** Categories. Rows with another value do not count. */
      categories?: string[];
      /** Column that is read. */
      column: string;
      /**
       * Bounds of the bins, ascending: each bin begins with its lower one, and the last has its upper one
       * too. Rows outside do not count. Exactly one of `edges` and `categories` is required.
       */
      edges?: number[];
      kind: "histogram";
      /** Name of the answer. */
      name: Name;
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
    }
  | {
      /** Column that is read. */
      column: string;
      kind: "mean";
      /** Name of the answer. */
      name: Name;
      /** The least and the largest number: others count as the nearer of both. */
      range: number[];
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
    }
  | {
      /** Shares, each above 0 and below 1. */
      at: number[];
      /** Column that is read. */
      column: string;
      kind: "quantiles";
      /** The range is divided in two so many times, 1 to 16. Default: 12, which is 4,096 parts. */
      levels?: number;
      /** Name of the answer. */
      name: Name;
      /** The least and the largest number: others count as the nearer of both. */
      range: number[];
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
    }
  | {
      /**
       * Letters that words may have. Words are read in lower case, and those with another letter do not
       * count. Default: a to z, 0 to 9, space, hyphen, dot and apostrophe.
       */
      alphabet?: string;
      /** Beginnings of words that go on to the next round, at most, 1 to 1,000. Default: 64. */
      beginnings_max?: number;
      /** Column that is read. */
      column: string;
      kind: "heavy_hitters";
      /** Letters of a word that are read, 1 to 64: longer words count as their beginning. Default: 12. */
      length_max?: number;
      /** Name of the answer. */
      name: Name;
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
      /** Words of the answer, at most. Default: 20. */
      top?: number;
    }
  | {
      /** Column that names the group of a row. */
      by: string;
      /** Column that is read. */
      column: string;
      /** The groups. Rows of others do not count. */
      groups: string[];
      kind: "rate";
      /** Name of the answer. */
      name: Name;
      /** Part of the privacy budget, in relation to the other queries. Default: 1. */
      share?: number;
      /** The values that count. */
      values: string[];
    };

/** Settings of `random_k`. */
export interface RandomK {
  /** Expected share of the values that is sent, above 0 and at most 1. Default: 0.1. */
  density?: number;
  /**
   * Encoding of the values that are sent: `f16`, `int8` or `f32`. Signs alone would be biased. Default:
   * `f16`.
   */
  values?: SparseValues;
}

/**
 * The factor of a learning rate as a function of the model version from which a round starts.
 * Abandoned rounds make no version, so they do not advance a schedule.
 */
export type RateSchedule =
  | {
      kind: "constant";
    }
  | {
      /** Factor, above 0 and at most 1. */
      decay: number;
      /** Versions between two decays. Default: 1. */
      every?: number;
      kind: "exponential";
    }
  | {
      /** Last factor, 0 to 1. Default: 0. */
      floor?: number;
      kind: "cosine";
      /** Versions until the floor. */
      versions: number;
    }
  | {
      kind: "warmup";
      /** Versions until the whole rate. */
      versions: number;
    }
  | {
      /** Versions in ascending order. */
      at: number[];
      /** Factor of each step, above 0 and at most 1. Default: 0.1. */
      factor?: number;
      kind: "steps";
    };

/** Jobs that a relay plays. */
export interface RelayJobs {
  /**
   * Their ids, at most 100. In the answer, those that have ended at the parent, or that it does not
   * have.
   */
  jobs: JobId[];
}

/** What a relay offers when it checks in. */
export interface RelayOffer {
  /**
   * Clients that wait at the relay, 0 to 10,000: it can stand for as many in a job that names no example
   * set. For jobs that name one, `sets` of the check-in has their numbers. With 0 it gets no work.
   */
  places: number;
}

/** What a relay needs to play its part of a round. */
export interface RelayTerms {
  /**
   * The place of the relay in a coded tree, where the job's `[coded]` says how many clients take part.
   * Absent in other rounds.
   */
  branch?: Branch;
  /**
   * Clients of the whole round. With the caps of the job they fix the binary point, which all its sums
   * share.
   */
  cohort: number;
  /** The job. */
  job: JobFile;
  /** Largest L2 norm of an update. Absent without a bound. */
  norm_max?: number;
  /** Most clients whose reports the relay brings. */
  places: number;
}

/** A model version that the apps of a population predict with. */
export interface Release {
  /** Attributes of the clients that it is meant for. Empty: all of them. */
  attributes?: Record<string, string>;
  /** The release that the differences are added to. Absent where there are none. */
  base?: number;
  /** Length of that file in bytes. */
  bytes: number;
  /** When its state or share changed last. */
  changed_at_ms: number;
  /** The channel that apps ask for. */
  channel: Name;
  /** Number of clients that say that they have it. */
  clients: number;
  /** When it was made. */
  created_at_ms: number;
  /** When its files were deleted, because newer releases had replaced it. This entry stays. */
  deleted_at_ms?: number;
  /** Length of the differences in bytes, as they are sent. */
  difference_bytes?: number;
  /** What its evaluation must show before it goes out. */
  gate?: string;
  /** The job that evaluates it for its gate. */
  gate_job?: JobId;
  /** Its id. */
  id: ReleaseId;
  /** Job that made the version. It may be deleted since. */
  job: JobId;
  /** Name of that job when the release was made. */
  job_name: Name;
  /** Its number in the channel, from 1. */
  number: number;
  /** Population of its clients. */
  population: Name;
  /** SHA-256 of the model's file. It is the version's, unless the release was made by 8-bit differences. */
  sha256: Sha256Hash;
  /** Share of the clients that it is meant for, in millionths. */
  share: Share;
  /** Where it stands. */
  state: ReleaseState;
  /** What that evaluation came to. */
  verdict?: string;
  /** The version. */
  version: number;
}

/** Id of a release of a model to the apps of a population. */
export type ReleaseId = string;

/** Where a release stands. */
export type ReleaseState = "held" | "out" | "withdrawn" | "refused";

/** A release, as a client downloads it. */
export interface Released {
  /** Length of that file. */
  bytes: number;
  /** What the model is, and how it is used. */
  card: unknown;
  /**
   * Differences up to this release, at most 3, in ascending order. A client whose file has the
   * `base_sha256` of one of them downloads that one and those after it, instead of the whole file.
   */
  differences?: Difference[];
  /** Its id. */
  id: ReleaseId;
  /** The job that made it, whose own parameters a client may have kept. */
  job: JobId;
  /** Its number in the channel, from 1. */
  number: number;
  /** SHA-256 of the model's file: a safetensors file of 32-bit values. */
  sha256: Sha256Hash;
}

/** A credential that the client should replace now. It works a while longer. */
export type Renewal = "certificate" | "secret";

/** Response to a report. It is stored durably, so the client can discard its copy. */
export interface ReportAccepted {
  /** Time to wait before the next check-in, in milliseconds. */
  retry_after_ms: number;
}

/** Retention of models and history (`[retention]`). */
export interface Retention {
  /**
   * Days after the end of a round when its assignments and events are deleted. The round's summary
   * stays. Default: never.
   */
  history_days?: number;
  /**
   * Model versions to keep. The newest version and those of open rounds are always kept. Default:
   * `useful`.
   */
  models?: ModelsKept;
}

/** What a member does next. */
export type RingAnswer =
  | (RingRoster & {
      answer: "formed";
    })
  | (RingSum & {
      answer: "upload";
    })
  | {
      answer: "done";
      /** Time to wait before the next check-in, in milliseconds. */
      retry_after_ms: number;
    }
  | {
      answer: "over";
    }
  | {
      answer: "star";
    };

/** A group that formed. */
export interface RingAttempt {
  /** Where members exchange while they train: the exchanges after which they went on. */
  exchanged?: number;
  /** When it formed. */
  formed_at_ms: number;
  /** Id of the group. */
  id: GroupId;
  /** Its members around the ring: each sends to the next one, the last to the first. */
  members: RingPart[];
  /** Number of the attempt, from 1. */
  number: number;
  /** SHA-256 of the sum on which its members agreed. Absent before they do. */
  sha256?: Sha256Hash;
  /** When it came to this state. */
  since_ms: number;
  /** What became of it. */
  state: RingState;
}

/** Whom a member could not go on with. */
export interface RingBlame {
  /** Number of that client in its population. */
  client_number: number;
  /** The step of the schedule, from 0. */
  step: number;
  /** What it did. */
  what: StallKind;
}

/** How others reach a member. */
export interface RingMember {
  /** Host and port, such as `silo-7.example.org:7400`, at most 4 of at most 255 bytes. */
  addresses: string[];
  /**
   * SHA-256 of the SubjectPublicKeyInfo of its device key, in DER. Others accept no other key at its
   * addresses.
   */
  key: Sha256Hash;
}

/** A member has the sum of its group. */
export interface RingOutcome {
  /** The attempt. */
  attempt: number;
  /** Bytes that it received from other members. */
  bytes_received: number;
  /** Bytes that it sent to other members. */
  bytes_sent: number;
  /** In gossip: the distance of its model from the mean of all members' models, as an L2 norm. */
  distance?: number;
  /** Examples, loss and steps of its training, where members exchange while they train. */
  report?: RingReport;
  /**
   * Kilobits in a second that the link to the next member took. Absent where it never made the member
   * wait.
   */
  sent_kbit_s?: number;
  /** SHA-256 of the body of the sum. */
  sha256: Sha256Hash;
  /** Time from the roster to the sum, in milliseconds. */
  took_ms: number;
}

/** A member of a group. */
export interface RingPart {
  /** Whether it was asked to bring the sum. */
  brings: boolean;
  /** Bytes that it received from other members. */
  bytes_received?: number;
  /** Bytes that it sent to other members. */
  bytes_sent?: number;
  /** Number of the client in its population. */
  client_number: number;
  /** In gossip: the distance of its model from the mean of all members' models. Absent before it says so. */
  distance?: number;
  /** SHA-256 of the sum that it has. Absent before it says so. */
  outcome?: Sha256Hash;
  /** Whether its link to the next member goes through the coordinator. */
  relayed?: boolean;
  /**
   * Bytes on that link that the coordinator passed on, in both directions. Absent before the link has
   * ended.
   */
  relayed_bytes?: number;
  /**
   * Kilobits in a second that the link to the next member took. Absent where it never made the member
   * wait.
   */
  sent_kbit_s?: number;
  /** Whom it could not go on with. Absent if it could. */
  stall?: RingBlame;
  /** Time from the roster to the sum, in milliseconds. */
  took_ms?: number;
  /** Examples behind its update. */
  weight: number;
}

/**
 * A member joins the next attempt: it has finished its work, or begins it where members exchange while
 * they train.
 */
export interface RingReady {
  /** Number of the attempt that it saw last, 0 before the first. */
  attempt: number;
  /** Where members exchange while they train: the number of exchanges that it has completed. */
  exchanged?: number;
  /** Where others reach it. */
  member: RingMember;
  /**
   * Examples, loss and steps of its training. Where members exchange while they train, it has only its
   * examples yet.
   */
  report: RingReport;
}

/** What a member tells of its training. */
export interface RingReport {
  /** Mean loss of the local training, at most 1e12 in magnitude. */
  loss?: number;
  /** Number of optimiser steps. */
  steps: number;
  /** Time spent in training, in milliseconds. */
  train_ms: number;
  /** Number of examples trained on, from 1 to the plan's `weight_max`. */
  weight: number;
}

/** A group. */
export interface RingRoster {
  /** Number of the attempt in its round, from 1. */
  attempt: number;
  /** Binary places of the integers of the sum. */
  binary_point: number;
  /** Who mixes with whom, as pairs of ranks with the lower one first, where the job names edges. */
  edges?: number[][];
  /** Time until members send their own updates instead, in milliseconds. */
  ends_in_ms: number;
  /**
   * Where members exchange while they train: they go on after this number of exchanges. One that has
   * completed one more goes back to where it was before it.
   */
  exchanged?: number;
  /** Longest silence of a neighbour that owes a frame, in milliseconds. */
  frame_ms: number;
  /** Bits of the integers on the grid of the group; all bits if it is absent. */
  grid_bits?: number;
  /** Id of the group, another one in each attempt. */
  group: GroupId;
  /** The members around the ring: each sends to the next one, the last to the first. */
  members: RingMember[];
  /**
   * What the coordinator multiplies the mean of the updates with before it adds it to the model, where
   * it does nothing else: members then make the next model by themselves, and need not download it.
   */
  next_rate?: number;
  /** The reader's place among the members. */
  rank: number;
  /** The ranks of members whose link to the next one goes through the coordinator. */
  relayed?: number[];
  /** Whether all updates count alike. Otherwise they count by their examples. */
  uniform: boolean;
  /** Largest magnitude of an integer that one update adds. */
  value_max: number;
  /** Total weight of the updates, in units of 2^-16 examples: it is in the header of the sum. */
  weight: number;
}

/** Why a member could not go on. */
export interface RingStall {
  /** The attempt. */
  attempt: number;
  /** The neighbour's place among the members. */
  rank: number;
  /** The step of the schedule, from 0. */
  step: number;
  /** What it did. */
  what: StallKind;
}

/** The state of a group that adds up among itself. */
export type RingState = "formed" | "agreed" | "counted" | "failed";

/** What is known of a sum beside its values. */
export interface RingSum {
  /** Examples behind its updates. */
  examples: number;
  /** Mean loss of the trainings, weighted by examples. Absent where no member told one. */
  loss?: number;
  /** Optimiser steps of all members. */
  steps: number;
  /** Time that the members trained, in milliseconds, summed over them. */
  train_ms: number;
}

/** What the holder of a token or account may do. Each role may also do what the roles before it may. */
export type Role = "viewer" | "operator" | "admin";

/** A round: training or evaluation by one cohort. */
export type Round = Traffic & {
  /** Accuracy of the resulting model in its evaluation, weighted by examples, 0 to 1. */
  accuracy?: number;
  /**
   * What the times of the rounds before gave to it. Absent unless its job follows them, and until enough
   * is measured.
   */
  adapted?: Adapted;
  /**
   * What the diversity of the rounds before gave to its goal. Absent unless its job follows it, and
   * until enough is measured.
   */
  adapted_goal?: AdaptedGoal;
  /** Number of clients of the cohort that still work. */
  assigned?: number;
  /** Model version that the clients started from. */
  base_version: number;
  /** What the round has as the buffer of a buffered job. Absent in other rounds. */
  buffer?: RoundBuffer;
  /** Of an evaluation: targets and right answers of each class. Absent without counts. */
  classes?: ClassTotals;
  /**
   * Sum of the work times that clients reported, in milliseconds. Each is capped at the time that its
   * assignment was open.
   */
  clients_ms?: number;
  /** Norm to which the updates of the round are clipped, where it adapts. */
  clip_norm?: number;
  /** Time at which the round stopped accepting reports. */
  closed_at_ms?: number;
  /**
   * Number of clients drawn. In a buffered job: of assignments that ended in this round or are open in
   * it.
   */
  cohort: number;
  /** Deadline of the cohort. */
  deadline_at_ms?: number;
  /**
   * Gradient diversity of the updates: the sum of the squared norms of the weighted deltas over the
   * squared norm of their sum (Yin et al. 2018, definition 1). It is 1 for orthogonal deltas and 1 / m
   * for equal ones, where m is the number of updates that count alike: `(sum of weights)^2 / sum of
   * squared weights`, which is the number of updates only for equal weights.
   */
  diversity?: number;
  /** Time at which the round was committed or abandoned. */
  ended_at_ms?: number;
  /** Named scalars of the evaluation of the resulting model, by name. */
  evaluation_metrics?: MetricSummary[];
  /** Number of stragglers: clients that had not reported when the round closed. */
  expired: number;
  /** Number of clients that gave up. */
  failed: number;
  /**
   * Number of updates in the running sum of the coordinator that answers. It equals `reported` unless
   * that coordinator has just restarted. Absent if the coordinator keeps no sum of this round.
   */
  folded?: number;
  /**
   * Number of reports after which the round closes before its deadline. Of an evaluation by all clients
   * that are here: those that it has drawn so far.
   */
  goal: number;
  /** Mean loss of the resulting model in its evaluation, weighted by examples. */
  loss?: number;
  /** What that accuracy was measured on. Absent without an accuracy. */
  measured_on?: MeasuredOn;
  /** Named scalars of the round's own reports, by name. */
  metrics?: MetricSummary[];
  /** Fewest reports for a result. */
  minimum: number;
  /** Weight of FedProx's proximal term, where it adapts. */
  mu?: number;
  /** Largest L2 norm of an update of the round. Absent without a norm bound. */
  norm_max?: number;
  /**
   * Number in the job, from 1. An evaluation has the number of the training round whose model it
   * evaluates.
   */
  number: number;
  /** Time at which the round opened. */
  opened_at_ms: number;
  /** Current phase. */
  phase: Phase;
  /** Reason of an abandoned round. */
  reason?: AbandonReason;
  /** Number of rejected updates. */
  rejected: number;
  /** Number of accepted reports. */
  reported: number;
  /**
   * Time that stragglers did not compute because they stopped before the deadline, in milliseconds. A
   * straggler that stops is counted with all the time that it had left.
   */
  saved_ms?: number;
  /** Seed of the cohort's draw and of the random choices of its clients. */
  seed: Seed;
  /** Time at which the cohort was drawn. */
  selected_at_ms?: number;
  /**
   * Number of stragglers that the round did not need, because it had reached its goal: spares, drawn in
   * addition on purpose. Included in `expired`.
   */
  spare?: number;
  /** L2 norm of the model delta from the base version to the resulting version. */
  step_norm?: number;
  /** Training or evaluation. */
  task: Task;
  /** Mean training loss of the accepted updates, weighted by examples. */
  training_loss?: number;
  /** Sum of the weights (examples) of the accepted reports. */
  weight: number;
};

/** What a round of a buffered job has beside its counts. */
export interface RoundBuffer {
  /** Most clients that work at a time. */
  concurrency: number;
  /** Weight, in examples, that staleness took from the accepted updates. */
  lost_weight: number;
  /** In a stale-synchronous job: how far members may be ahead of the slowest when they begin. */
  slack?: number;
  /**
   * Largest number of versions that an update may be behind. Absent in a stale-synchronous job, where
   * the slack bounds it.
   */
  staleness_max?: number;
  /** Mean staleness of the accepted updates. Absent without any. */
  staleness_mean?: number;
}

/** A round with its phases, an explanation and alternatives. */
export interface RoundDetail {
  /**
   * Counts by class: of this evaluation, or of the evaluation of the resulting model. The sums over all
   * reports.
   */
  classes?: ClassCounts;
  /** What these counts were measured on: their evaluation's. */
  classes_measured_on?: MeasuredOn;
  /**
   * The clocks of the members of a stale-synchronous job, by the number of the client, while the round
   * is open.
   */
  clocks?: MemberClock[];
  /** The evaluation of the resulting model. */
  evaluation?: Round;
  /** One sentence for people: what the round waits for, what took its time, or why it was abandoned. */
  explanation: string;
  /** The groups of a round whose updates are masked, in the order in which they formed. */
  groups?: RoundGroup[];
  /** The phases so far, in order. */
  phases: PhaseSpan[];
  /**
   * How members added up among themselves. Absent in jobs without `[group]`, and in other rounds than
   * trainings.
   */
  ring?: RoundRing;
  /** The round. */
  round: Round;
  /**
   * How stale the accepted updates of this round and the 19 before it were, least first. Empty unless
   * the job is buffered.
   */
  staleness?: StalenessCount[];
  /** Clients that have finished and wait for a group. */
  waiting_for_group?: number;
  /**
   * The effect of other deadlines. Empty until the round has closed, and after its assignments were
   * deleted.
   */
  what_if: WhatIf[];
}

/** A group: clients that add up their updates under masks, so that nobody sees a single one. */
export interface RoundGroup {
  /** Number of members that each member shares masks with. */
  degree: number;
  /** Id of the group. */
  id: GroupId;
  /**
   * Its members around a circle: each shares masks with those at most half of `degree` places away, and
   * with all others where `degree` is as large as that.
   */
  members: RoundGroupMember[];
  /** Why it has no sum. Absent unless it failed. */
  reason?: GroupFailure;
  /** Whether its members sign who they are and who has survived. */
  signed: boolean;
  /** Time at which this stage began. */
  since_ms: number;
  /** What its members are doing. */
  stage: GroupStage;
  /** Fewest members whose updates make a sum. */
  survivors_min: number;
  /** Shares that rebuild a secret of a lost member. */
  threshold: number;
}

/** A member of a group. */
export interface RoundGroupMember {
  /** How far it came. */
  came: GroupProgress;
  /** Number of the client in its population. */
  client_number: number;
}

/** When a training round opens, closes and is abandoned (`[round]`). */
export interface RoundPolicy {
  /** Deadlines and cohorts that follow the measured times. Default: none, every round has `deadline_ms`. */
  adapt?: Adapt;
  /**
   * Clients that must be available before a cohort is drawn. At least the size of the cohort is always
   * required. Default: 0.
   */
  available_min?: number;
  /** Longest pause after abandoned rounds, in milliseconds. Default: 600,000. */
  backoff_max_ms?: number;
  /**
   * Pause after an abandoned round, in milliseconds. It doubles with each further one in a row. Default:
   * 1,000.
   */
  backoff_ms?: number;
  /**
   * Time from the draw of the cohort to its deadline, in milliseconds. Later updates do not count.
   * Default: 600,000.
   */
  deadline_ms?: number;
  /**
   * When updates meet. Default: `synchronous`. In the other modes, `deadline_ms` is the time of each
   * client, and `updates_goal`, `updates_min`, `over_selection`, `available_min` and `selection` have no
   * meaning; with `buffered`, neither has `selection_timeout_ms`.
   */
  mode?: Mode;
  /** Clients drawn per update of the goal, 1 to 10. The surplus makes up for stragglers. Default: 1.3. */
  over_selection?: number;
  /** Which of the available clients form the cohort. Default: uniform. */
  selection?: Selection;
  /** Longest wait for available clients, in milliseconds. Default: 300,000. */
  selection_timeout_ms?: number;
  /** Updates after which a round closes before its deadline. Default: 10. */
  updates_goal?: number;
  /** Fewest updates for a result. A round with fewer at its deadline is abandoned. Default: 5. */
  updates_min?: number;
}

/**
 * New values for settings of `[round]`; the mode is fixed. Absent settings stay unchanged. Open rounds
 * keep the policy that they started with.
 */
export interface RoundPolicyChange {
  /** Clients that must be available before a cohort is drawn. */
  available_min?: number;
  /** Longest pause after abandoned rounds, in milliseconds. */
  backoff_max_ms?: number;
  /** Pause after an abandoned round, in milliseconds. */
  backoff_ms?: number;
  /** Time from the draw of the cohort to its deadline, in milliseconds. */
  deadline_ms?: number;
  /** Clients drawn per update of the goal, 1 to 10. */
  over_selection?: number;
  /** Longest wait for available clients, in milliseconds. */
  selection_timeout_ms?: number;
  /** Updates after which a round closes before its deadline. */
  updates_goal?: number;
  /** Fewest updates for a result. */
  updates_min?: number;
}

/** How the members of a round added up among themselves. */
export interface RoundRing {
  /** The groups that formed, in their order. */
  attempts: RingAttempt[];
  /** Why members send their own updates to the coordinator instead. Absent while they need not. */
  star?: StarReason;
  /** Clients that have finished, and are in no open group. */
  waiting: number;
}

/** What a list of rounds is sorted by. Rounds without the value come last, in both directions. */
export type RoundSort = "number" | "took" | "accuracy" | "loss" | "training_loss" | "lost" | "up";

/** Protection by a secret draw. */
export type Sampling = "poisson";

/** Times at which training rounds may start (`[schedule]`). */
export interface Schedule {
  /**
   * Cron expression of the minutes in which a training round may open: minute, hour, day of month,
   * month, day of week. `* 22-23,0-5 * * *` allows every minute from 22:00 to 5:59.
   */
  rounds: string;
  /** IANA name of the time zone of the expression, such as `Europe/Berlin`. Default: `UTC`. */
  time_zone?: string;
}

/** A run of scheduled work. */
export interface ScheduledRun {
  /**
   * Time at which the run ended. Absent while it runs, or if its coordinator was killed; the next run
   * then does the rest.
   */
  ended_at_ms?: number;
  /** Whether the run failed. */
  failed: boolean;
  /** Name of the coordinator that ran it. */
  node: string;
  /** Summary of the work done, or the error. */
  outcome: string;
  /** Time at which the run began. */
  started_at_ms: number;
}

/** Scheduled work. At each due time one of the coordinators does it. */
export interface ScheduledWork {
  /** Cron expression of the due times: minute, hour, day of month, month, day of week. */
  cron: string;
  /** The last run. Absent before the first one. */
  last?: ScheduledRun;
  /** Kind of work: `retention` or `upkeep`. */
  name: string;
  /** Next due time. */
  next_at_ms: number;
  /** IANA time zone of the expression. */
  time_zone: string;
}

/** A bearer credential. Its prefix names its kind. */
export type Secret = string;

/** Secure aggregation of a job: the coordinator learns the sums of groups and no single update. */
export interface SecureAggregation {
  /**
   * L2 norm to which clients clip their updates: a number, or a table for one that follows the updates.
   * Default: `{ start = 1.0, quantile = 0.9, rate = 0.2 }`, since a clip that no noise follows need not
   * be small.
   */
  clip?: Clip;
  /** Share of the members that may work together with a dishonest coordinator, 0 to 0.33. Default: 0.1. */
  corrupt?: number;
  /** Share of the members that may be lost after they joined, 0 to 0.5. Default: 0.3. */
  dropouts?: number;
  /** Most members of a group, 3 to 1,000. Default: `updates_goal`, at most 128. */
  group?: number;
  /** Fewest members of a group, 3 or more. Default: a quarter of `group`, rounded up. */
  group_min?: number;
  /**
   * Share of the values that are sent, above 0 and at most 1: a random part, the same for all members of
   * a group. Default: 1.
   */
  keep?: number;
  /**
   * Steps of a value on either side of zero, as the root of the mean square of a clipped update, 1 to
   * 4,096. Default: 8.
   */
  levels?: number;
  /**
   * The CAs, in PEM, that issue the certificates with which members sign. Default: that of the
   * population, whose key the coordinator has.
   */
  peers_ca?: string;
  /**
   * Who is trusted to tell all members of a group the same: `honest` is the coordinator, `signed` is
   * nobody, because members sign. Default: `signed` where the coordinator identifies clients by
   * certificates or where `peers_ca` is given, else `honest`.
   */
  trust?: GroupTrust;
}

/**
 * A 64-bit seed. In JSON it is a number; derived seeds are below 2^53, which JavaScript represents
 * exactly.
 */
export type Seed = number;

/**
 * Which of the available clients form the cohort of a training round. Each is drawn from the round's
 * seed.
 */
export type Selection =
  | {
      kind: "uniform";
    }
  | {
      kind: "weighted";
    }
  | {
      /**
       * Number of candidates, at least the size of a cohort. With as many as a cohort has, this is
       * `weighted`.
       */
      candidates: number;
      kind: "power_of_choice";
    }
  | {
      kind: "poisson";
      /** The chance, above 0 and at most 1. */
      rate: number;
    }
  | (Utility & {
      kind: "utility";
    });

/**
 * The optimiser of the coordinator. Its gradient is the negative combined delta D of a round (Reddi et
 * al. 2021, algorithm 2).
 */
export type ServerOptimizer =
  | {
      kind: "sgd";
      /** Factor of the step, above 0 and at most 1000. Default: 1. */
      learning_rate?: number;
      /** Momentum, in `[0, 1)`. Default: 0. */
      momentum?: number;
      /** Nesterov momentum; requires a momentum above 0. Default: false. */
      nesterov?: boolean;
    }
  | {
      /** Decay rate of the first moment, in `[0, 1)`. Default: 0. */
      beta1?: number;
      kind: "adagrad";
      /** Learning rate, above 0 and at most 1000. Default: 0.1. */
      learning_rate?: number;
      /** Degree of adaptivity, above 0: added to the root. Default: 0.001. */
      tau?: number;
      /** First second moment. Default: the square of `tau`. */
      v0?: number;
    }
  | {
      /** Decay rate of the first moment, in `[0, 1)`. Default: 0.9. */
      beta1?: number;
      /** Decay rate of the second moment, in `[0, 1)`. Default: 0.99. */
      beta2?: number;
      /** Bias correction. Default: none, as in the paper. */
      bias_correction?: BiasCorrection;
      kind: "adam";
      /** Learning rate, above 0 and at most 1000. Default: 0.1. */
      learning_rate?: number;
      /** Degree of adaptivity, above 0: added to the root. Default: 0.001. */
      tau?: number;
      /** First second moment. Default: the square of `tau`. */
      v0?: number;
    }
  | {
      /** Decay rate of the first moment, in `[0, 1)`. Default: 0.9. */
      beta1?: number;
      /** Decay rate of the second moment, in `[0, 1)`. Default: 0.99. */
      beta2?: number;
      kind: "yogi";
      /** Learning rate, above 0 and at most 1000. Default: 0.01. */
      learning_rate?: number;
      /** Degree of adaptivity, above 0: added to the root. Default: 0.001. */
      tau?: number;
      /** First second moment. Default: the square of `tau`. */
      v0?: number;
    }
  | {
      kind: "lbfgs";
      /**
       * Pairs of steps and gradient changes that are kept, 1 to 20. The coordinator stores `2 pairs + 2`
       * vectors of the model's size with each version. Default: 8.
       */
      pairs?: number;
    };

/** A session: a browser in which an account is signed in. */
export interface Session {
  /** Address from which the account signed in. Absent where the coordinator does not know it. */
  address?: string;
  /** Time of the sign-in. */
  created_at_ms: number;
  /** Time at which the session ends. */
  expires_at_ms: number;
  /** Time of its last request, to the minute. */
  last_used_at_ms: number;
}

/** How urgently a job needs attention. */
export type Severity = "ok" | "waiting" | "warning" | "trouble";

/** A SHA-256 in lower-case hexadecimal digits. */
export type Sha256Hash = string;

/** How often sessions took one course. */
export interface ShapeCount {
  /** The same number by value of the attribute in the query. */
  by_class?: Record<string, number>;
  /** Number of sessions with this course. */
  count: number;
  /** The course, as in the field `shape` of an assignment. */
  shape: string;
}

/** The number of shards. */
export type Shards = number | Auto;

/** A share of clients in millionths: 1 to 1,000,000. */
export type Share = number;

/** What all jobs of a population together may tell about a unit. */
export interface SharedBudget {
  /** The chance that the promise does not hold, above 0 and at most 0.001. */
  delta: number;
  /** The budget: no job opens a round that would pass it, above 0 and at most 100. */
  epsilon: number;
  /** Who is protected: the `unit` that every job must have. Default: `client`. */
  unit?: Unit;
}

/** How people can sign in, besides with an account. */
export interface SignInWays {
  /** With an identity provider, at `/operator/v1/oidc/login`. */
  provider: boolean;
}

/** The operator that a request's credential stands for. */
export interface SignedIn {
  /** Id in the audit log: `token_..`, `account:NAME` or `oidc:SUBJECT`. */
  actor: string;
  /** Time at which the credential expires. Absent if it does not. */
  expires_at_ms?: number;
  /** Name of the account, or label of the token. */
  name: string;
  /** The only population that it shows and changes. Absent for the whole deployment. */
  population?: Name;
  /** Role of the operator. */
  role: Role;
}

/** How the values of a sparse codec are written. */
export type SparseValues = "f16" | "int8" | "sign" | "f32";

/** A client whose updates were behind, among the newest 20,000 updates of its job. */
export interface StaleClient {
  /** Id of the client. */
  client: ClientId;
  /** Its enrolment number. */
  client_number: number;
  /** Sum of the examples of its updates; one each in a private job. */
  examples: number;
  /** Weight, in examples, that staleness took from them. */
  lost_weight: number;
  /** Largest number of versions behind. */
  staleness_max: number;
  /** Mean number of versions behind. */
  staleness_mean: number;
  /** Number of its accepted updates. */
  updates: number;
}

/** Accepted updates that were the same number of versions behind. */
export interface StalenessCount {
  /** Sum of their examples; one each in a private job. */
  examples: number;
  /** Number of versions behind. */
  staleness: number;
  /** Number of updates. */
  updates: number;
}

/** The weight of an update that is `d` versions behind, as a factor of its examples. */
export type StalenessWeight =
  | {
      kind: "constant";
    }
  | {
      kind: "inverse";
    }
  | {
      /** Exponent, above 0 and at most 100. */
      a: number;
      kind: "polynomial";
    }
  | {
      /** Slope, above 0 and at most 100. */
      a: number;
      /** Versions without a discount. */
      b: number;
      kind: "hinge";
    };

/** What a neighbour in a group did, so that its member could not go on. */
export type StallKind = "unreachable" | "silent" | "closed" | "wrong";

/** Who fixes means, deviations and replacements. */
export type Standardize = "federated";

/** Whether a client may take part. */
export type Standing = "active" | "quarantined" | "revoked";

/** The reason why the members of a group send their own updates to the coordinator. */
export type StarReason = "time" | "attempts" | "too_few" | "disagreement" | "links";

/** When a job is complete (`[stop]`): as soon as one of these is reached. */
export interface StopPolicy {
  /**
   * Accuracy of an evaluated version, above 0 and below 1: the lower end of its 95 % interval must reach
   * it. Requires an `[evaluation]`.
   */
  accuracy?: number;
  /** The job is complete when the mean of `metric` is this or more. */
  at_least?: number;
  /** The job is complete when the mean of `metric` is this or less. */
  at_most?: number;
  /**
   * Name of a metric of the evaluation, with one of `at_least` and `at_most`. Requires an
   * `[evaluation]`.
   */
  metric?: MetricName;
  /** Number of committed training rounds. */
  rounds?: number;
}

/** Size of the stored data in bytes. */
export interface Storage {
  /** Size of the database. Absent where the database does not report it. */
  database_bytes?: number;
  /** Free space on the disk of the SQLite database. Absent for PostgreSQL. */
  free_bytes?: number;
  /**
   * Time until that disk is full if it fills as in the last 24 hours, in milliseconds. Absent if it does
   * not fill.
   */
  full_in_ms?: number;
  /** Bodies of models, in the database and in the object store. */
  models_bytes: number;
  /** Bodies of updates in open rounds, in the database and in the object store. */
  updates_bytes: number;
}

/** The outcome of a straggler: a client whose round closed before it reported. */
export type Straggler = "finished_late" | "stopped" | "not_back";

/** How an exact sum of updates is made. */
export interface SumTerms {
  /** Binary places of its integers. */
  binary_point: number;
  /** Whether each update weighs 1, and not its examples. */
  uniform: boolean;
}

/** State of a coordinator and its database. */
export interface System {
  /** Check-ins per second at the coordinator that answers, averaged over the last minute. */
  checkins_per_s: number;
  /** Latency of its database. */
  db: DbLatency;
  /** Kind of database. */
  engine: Engine;
  /** Number of check-ins that it holds until there is work. */
  held_clients: number;
  /**
   * The load of the coordinator that answers, twice a minute for an hour at most, oldest first. It is in
   * memory, so it begins with the process.
   */
  history?: LoadSample[];
  /** All coordinators of the database, with their leases. */
  nodes: Node[];
  /** Number of clients that are here now: they wait for work at any coordinator, or are at work. */
  online_clients?: number;
  /** Address of the coordinator whose [relay](crate::relay) this one is. Absent at a root. */
  parent?: string;
  /** Scheduled work. */
  schedules: ScheduledWork[];
  /** Time at which it started. */
  started_at_ms: number;
  /** Size of the stored data. */
  storage: Storage;
  /** Number of updates that it is receiving. */
  updates_in_flight: number;
  /** Accepted updates per second at the coordinator that answers, averaged over the last minute. */
  updates_per_s?: number;
  /** Release of the coordinator that answers. */
  version: string;
  /** Those of them that are at work. */
  working_clients?: number;
}

export type Tagged =
  | (NoSettings & {
      name: "f32";
    })
  | (NoSettings & {
      name: "f16";
    })
  | (NoSettings & {
      name: "bf16";
    })
  | (Blocks & {
      name: "int8";
    })
  | (Blocks & {
      name: "int4";
    })
  | (Ternary & {
      name: "ternary";
    })
  | (Qsgd & {
      name: "qsgd";
    })
  | (NoSettings & {
      name: "sign";
    })
  | (RandomK & {
      name: "random_k";
    })
  | (TopK & {
      name: "top_k";
    })
  | (Dgc & {
      name: "dgc";
    })
  | (Eden & {
      name: "eden";
    })
  | (Hierarchical & {
      name: "hierarchical";
    });

/** The cost of reaching an accuracy for the first time, with the lower bound of its interval. */
export interface Target {
  /** The accuracy, 0 to 1. */
  accuracy: number;
  /** Time at which that round ended. */
  at_ms: number;
  /** Bytes that clients uploaded until then. */
  bytes_up: number;
  /** Work time of clients until then, in milliseconds. */
  clients_ms: number;
  /** Number of the round whose model reached it. */
  round: number;
}

/** The work of a round's clients. */
export type Task = "train" | "evaluate" | "describe";

/** Settings of `ternary`. */
export interface Ternary {
  /**
   * Values are clipped at this number of standard deviations of their tensor, 0.5 to 100 (the paper uses
   * 2.5). 0 disables clipping. Only without clipping the codec is unbiased. Default: 0.
   */
  clip?: number;
  /**
   * Scale as a multiple of the largest magnitude, 1 to 1024. Twice the scale sends half as many values
   * with about twice the noise, still unbiased. Large cohorts average that noise out. Default: 1.
   */
  scale?: number;
}

/** A test set that was uploaded. */
export interface TestSet {
  /** Length of the file in bytes. */
  bytes: number;
  /** Number of examples. */
  examples: number;
  /** SHA-256 of the file. */
  sha256: Sha256Hash;
  /** Time of the upload. */
  uploaded_at_ms: number;
}

/** The test set of a job. */
export interface TestSetState {
  /** Absent until one is uploaded. */
  test_set?: TestSet;
}

/** A token without its secret. */
export interface Token {
  /** Attributes that it grants to the clients that it enrols. */
  attributes?: Attributes;
  /** Time of creation. */
  created_at_ms: number;
  /** Time from which the token is no longer valid. Absent if its lifetime is unlimited. */
  expires_at_ms?: number;
  /** Id of the token. */
  id: TokenId;
  /** For operators or for apps. */
  kind: TokenKind;
  /** Purpose of the token, as given at its creation. */
  label: string;
  /** Time of its last use, to the minute. Absent if it was never used. */
  last_used_at_ms?: number;
  /** Most clients that it can enrol in a minute. Absent if unlimited. */
  per_minute_max?: number;
  /**
   * Population in which an enrolment token enrols clients, or to which an operator token is restricted.
   * Absent for an operator token of the whole deployment.
   */
  population?: Name;
  /** Time at which an operator revoked it. */
  revoked_at_ms?: number;
  /** Role of an operator token. Absent for an enrolment token. */
  role?: Role;
  /** Number of clients that it enrolled. */
  uses: number;
  /** Most clients that it can enrol. Absent if unlimited. */
  uses_max?: number;
}

/** Id of an operator token or enrolment token; it is not a credential. */
export type TokenId = string;

/** The holder for whom a token is made. */
export type TokenKind = "operator" | "enrolment";

/** Token ids as inputs. They are fed as they are. */
export interface Tokens {
  /**
   * SHA-256 of the file that gives each token its id: another vocabulary would give every word another
   * meaning.
   */
  vocabulary_sha256: string;
}

/** Settings of `top_k`. */
export interface TopK {
  /**
   * Share of the values that is sent, above 0 and at most 1; the number of values is rounded up.
   * Default: 0.01.
   */
  density?: number;
  /** Age in rounds after which a device drops its residual. Default: 100. */
  residual_age_rounds_max?: number;
  /** Encoding of the values that are sent. Default: `f16`. */
  values?: SparseValues;
}

/** How members of a group are connected. */
export type Topology =
  | {
      /** When members add up. Default: once per round, after their trainings. */
      every?: Every;
      kind: "ring";
    }
  | {
      /**
       * Time for which members go on training and mixing while the coordinator is away, in milliseconds, 0
       * to 604,800,000. Default: 3,600,000.
       */
      alone_ms?: number;
      /** How models travel to neighbours. Default: `f32`. */
      codec?: MixCodec;
      /** Who mixes with whom. */
      graph: Graph;
      kind: "gossip";
      /** Mixes each time, 1 to 100. Default: 1. */
      mixes?: number;
      /** Optimiser steps after which members mix. They do it after the last step, too. 1 to 1,000,000. */
      steps: number;
    };

/**
 * Bytes of bodies that were sent, those of broken attempts included, and what the same content takes
 * as plain f32 safetensors files.
 */
export interface Traffic {
  /** Bytes that clients downloaded: bodies of models. */
  bytes_down: number;
  /** Bytes that clients uploaded: bodies of reports, including interrupted and refused ones. */
  bytes_up: number;
  /** Bytes of the downloaded models if they were plain f32 files. */
  raw_bytes_down?: number;
  /** Bytes of the accepted reports if they were plain f32 files. */
  raw_bytes_up?: number;
}

/** Local training (`[training]` of a job file). */
export interface Training {
  /** What the clients optimise. Default: the loss of their examples. */
  algorithm?: Algorithm;
  /** Examples per optimiser step. Default: all examples of the client (full batch). */
  batch_size?: number;
  /** Passes over the client's examples. Exactly one of `epochs` and `steps` is required. */
  epochs?: number;
  /** Loss function. */
  loss?: Loss;
  /** Optimiser and its settings. */
  optimizer: Optimizer;
  /**
   * Share of the time until its deadline after which a client stops training and sends what it has,
   * above 0 and below 1. The rest of the time is for sending. Default: a client that is not done in time
   * does not count.
   */
  partial_work?: number;
  /**
   * Epochs in which a client trains its personal parameters alone, before it trains the others alone
   * (FedRep, Collins et al. 2021). Default: all parameters are trained together.
   */
  personal_epochs?: number;
  /** Schedule of the optimiser's learning rate. Default: constant. */
  schedule?: RateSchedule;
  /** Whether each epoch draws a new order of the examples. Default: true. */
  shuffle?: boolean;
  /**
   * Optimiser steps, independent of the number of examples. Exactly one of `epochs` and `steps` is
   * required.
   */
  steps?: number;
  /**
   * Model versions from which on the amount of work is another one, in ascending order. Post-local SGD
   * (Lin et al. 2020) begins with `steps = 1` and takes more later. Default: none.
   */
  work_schedule?: WorkChange[];
}

/** Who is protected. */
export type Unit =
  | "client"
  | {
      /**
       * All clients together that were granted the same value of this attribute by their enrolment token.
       * Clients without it do not take part.
       */
      attribute: string;
    };

/** Encoding and limits of updates (`[update]`). */
export interface UpdatePolicy {
  /** Codec of the weight deltas: a name, or a table of a name and settings. Default: `int8`. */
  codec?: Codec;
  /**
   * Largest magnitude of a value of a delta. The coordinator refuses an update with a larger one.
   * Default: 32.
   */
  magnitude_max?: number;
  /**
   * Largest L2 norm of a delta: a number, or a table for a bound that follows recent rounds. The
   * coordinator refuses an update with a larger one. Default: none.
   */
  norm_max?: NormMax;
  /**
   * Largest weight (number of examples) of one update. Clients cap their weight; the coordinator refuses
   * a larger one. Default: 10,000.
   */
  weight_max?: number;
}

/** How many updates a round can use, by the gradient diversity of the last rounds (Yin et al. 2018). */
export interface UsefulUpdates {
  /** Examples of this many updates. */
  batch?: number;
  /** One sentence with the reason. */
  text: string;
  /**
   * Updates beyond which further ones repeat what the others say. Absent where the updates have no
   * common direction.
   */
  updates?: number;
}

/** Settings of the selection `utility`. */
export interface Utility {
  /** Share of clients without an update in the first cohort, 0 to 1. Default: 0.9. */
  exploration?: number;
  /** Factor of this share from round to round, above 0 and at most 1. Default: 0.98. */
  exploration_decay?: number;
  /** The share does not fall below, 0 to 1. Default: 0.2. */
  exploration_min?: number;
  /**
   * A client that trains longer, in milliseconds, has its utility multiplied by `(preferred_ms /
   * time)^speed`. Default: none, time does not matter.
   */
  preferred_ms?: number;
  /** The exponent, 0 to 10. Default: 2. */
  speed?: number;
}

/** What a client without work waits for. */
export type WaitsFor =
  | {
      kind: "job";
    }
  | {
      /** Eligible clients that wait now, this one included. */
      available: number;
      /** Time until the end of the selection, in milliseconds. */
      ends_in_ms: number;
      /** Name of the job. */
      job: Name;
      kind: "clients";
      /** With fewer at the end of the selection, the round is abandoned. */
      minimum: number;
      /** Eligible clients with which the round starts at once. */
      needed: number;
      /** Number of the round in its job, from 1. */
      round: number;
    }
  | {
      /** Name of one of these jobs. */
      job: Name;
      kind: "admission";
      /** The first of its rules that this client breaks. */
      reason: string;
    }
  | {
      /** Name of the job. */
      job: Name;
      kind: "next_round";
    }
  | {
      kind: "release";
    };

/** The effect that another deadline would have had on a closed round. */
export interface WhatIf {
  /** The deadline as a time since the draw of the cohort, in milliseconds. */
  deadline_ms: number;
  /** Number of clients without a report in time, including those that gave up or were rejected. */
  dropped: number;
}

/** A change of a release. */
export interface WidenRelease {
  /** The new share of the clients, in millionths: more than before. */
  share: Share;
}

/** The amount of work from a model version on. */
export interface WorkChange {
  /** Passes over the client's examples. Exactly one of `epochs` and `steps` is required. */
  epochs?: number;
  /** Optimiser steps. Exactly one of `epochs` and `steps` is required. */
  steps?: number;
  /** The first version whose rounds do this amount of work, at least 1. */
  version: number;
}
