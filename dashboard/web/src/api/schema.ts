// Types of the coordinator's requests and answers. `npm run api` writes this file from openapi.json.

/** Why a round ended without a result. */
export type AbandonReason = "selection_timeout" | "too_few_reports" | "job_stopped" | "not_finite" | "fault";

/** How updates become the next version (`[aggregation]`). */
export type Aggregation = {
  rule: "fed_avg";
  /** 1 is plain federated averaging. */
  server_learning_rate?: number;
};

/** An assignment as operators see it. */
export interface Assignment {
  /** Accuracy that an evaluator told. */
  accuracy?: number;
  /** When the client was drawn. */
  assigned_at_ms: number;
  /** What the client said it is, at its last check-in. */
  attributes?: Attributes;
  /** Bytes of the model that it fetched. */
  bytes_down: number;
  /** Bytes that it sent (bodies of its report, those that broke off or were refused included). */
  bytes_up: number;
  /** The client. */
  client: ClientId;
  /** The client's number in the order of enrolment. */
  client_number: number;
  /**
   * Cosine of the angle between the update and the mean of its round, -1 to 1; none where it would have
   * cost too much.
   */
  cosine?: number;
  /** When it ended: report, refusal, failure or expiry. */
  ended_at_ms?: number;
  /** When its download of the model ended. */
  fetched_at_ms?: number;
  /** Its id. */
  id: AssignmentId;
  /** When a straggler came back with its late work. */
  late_at_ms?: number;
  /** Loss that the client told. */
  loss?: number;
  /** What the model that it fetched would have taken as a plain f32 file. */
  raw_bytes_down?: number;
  /** What its accepted report would have taken as a plain f32 file. */
  raw_bytes_up?: number;
  /** Why it was rejected or failed. */
  reason?: string;
  /**
   * Shape of the session, one letter per event: `c` checked in, `a` assigned, `d` downloaded, `t`
   * trained, `u` uploaded, then `+` reported, `!` rejected, `x` failed, `i` interrupted or `.` expired,
   * and `~` came late.
   */
  shape?: string;
  /** Where it stands. */
  state: AssignmentState;
  /** L2 norm of the update. */
  update_norm?: number;
  /** When the first byte of its update came. */
  upload_at_ms?: number;
  /** Time from that byte to the last one, in milliseconds. */
  upload_ms?: number;
  /** Examples behind the report. */
  weight?: number;
  /** Time that the client says it worked, in milliseconds. */
  work_ms?: number;
}

/** One client in one round. */
export type AssignmentId = string;

/** One client in one round. */
export type AssignmentState = "assigned" | "reported" | "rejected" | "failed" | "expired";

/** An assignment that is still open. */
export interface AssignmentStatus {
  /** Time left until the round closes, in milliseconds. */
  deadline_in_ms: number;
  /** Whether this client's report was already accepted: nothing more to send. */
  reported: boolean;
}

/** A name that clients of a population have an attribute under. */
export interface AttributeName {
  /** The name. */
  name: string;
  /** How many different values there are. */
  values: number;
}

/** What a client is: at most 32 names and values. */
export type Attributes = Record<string, string>;

/** Something that an operator did. */
export interface AuditEntry {
  /** What was done, as `job.pause`. */
  action: string;
  /** When. */
  at_ms: number;
  /** More about it. */
  detail?: string;
  /** Its id. */
  id: AuditId;
  /** The token's label. */
  label: string;
  /** To what: an id or a name. */
  subject: string;
  /** The operator token that was used. */
  token: TokenId;
}

/** One entry of the audit log. */
export type AuditId = string;

/** Settings of `int8` and `int4`. */
export interface Blocks {
  /** Values that share a scale, a multiple of 8 from 8 to 4096; blocks begin anew with each parameter. */
  block?: number;
}

/** A member of a cohort. */
export interface Cell {
  /** The client's number in the order of enrolment. */
  number: number;
  /** Why it was rejected or failed. */
  reason?: string;
  /** Where its assignment stands. */
  state: AssignmentState;
}

/** A client says that it is available and what it can do. */
export interface CheckInRequest {
  /** What it is now; replaces what it said before. */
  attributes?: Attributes;
  /**
   * Update codecs that it can write, each once. Names that this release does not know, those of a newer
   * client, are left out when it is read.
   */
  codecs: string[];
  /** Version of the SDK, for the operator's eyes. */
  sdk_version: string;
  /** How it is. */
  state: DeviceState;
  /** How long it would like to be held until there is work, in milliseconds (at most [`WAIT_MS_MAX`]). */
  wait_ms?: number;
}

/** The answer to a check-in. */
export type CheckInResponse =
  | (DeviceAssignment & {
      answer: "assigned";
    })
  | {
      answer: "retry";
      /**
       * How long to wait before the next check-in, in milliseconds; spread so that a fleet does not come at
       * once.
       */
      retry_after_ms: number;
    };

/**
 * How the clients with one value of an attribute fare, over the newest assignments of their
 * population.
 */
export interface ClassStats {
  /** Their assignments. */
  assigned: number;
  /** Clients that have it. */
  clients: number;
  /** Share of the ended assignments that did not report, 0 to 1. */
  drop_rate: number;
  /** Those that were too late. */
  expired: number;
  /** Those that gave up. */
  failed: number;
  /** Those whose report was rejected. */
  rejected: number;
  /** Those that reported. */
  reported: number;
  /** Their sessions by shape, most frequent first. */
  shapes: ShapeCount[];
  /** The value; empty for clients without the attribute. */
  value: string;
  /** Median of the time worked for a report, in milliseconds. */
  work_ms_p50?: number;
  /** The time that nine of ten reports took less than, in milliseconds. */
  work_ms_p90?: number;
}

/** A client as operators see it. */
export interface Client {
  /** What it said it is. */
  attributes: Attributes;
  /** Bytes of the models that it fetched. */
  bytes_down?: number;
  /** Bytes of the updates that it sent. */
  bytes_up?: number;
  /** When it enrolled. */
  created_at_ms: number;
  /** Examples it said it holds. */
  examples: number;
  /** Rounds that closed without it. */
  expired: number;
  /** Rounds in which it failed or its update was rejected. */
  failed: number;
  /** Its id. */
  id: ClientId;
  /** When it was last heard of. */
  last_seen_at_ms: number;
  /** Its number in the order of enrolment. */
  number: number;
  /** Its population. */
  population: Name;
  /** Those of them in which its update was rejected. */
  rejected?: number;
  /** Rounds in which it reported. */
  reported: number;
  /** Mean time that it worked for a report, in milliseconds. */
  work_ms_mean?: number;
}

/** An assignment in the history of its client. */
export type ClientAssignment = Assignment & {
  /** Of which job. */
  job: JobId;
  /** In which round. */
  round: number;
  /** Training or evaluation. */
  task: Task;
};

/** One enrolled device or silo. */
export type ClientId = string;

/** The order of a list of clients. */
export type ClientOrder = "number" | "last_seen" | "drop_rate";

/** As it stands in files: a name alone, or a table with a name and settings. */
export type Codec = CodecName | Tagged;

/** What a codec is called. */
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
  | "eden";

/** A job is wanted. */
export interface CreateJob {
  /** The job. */
  job: JobFile;
}

/** A population is wanted. */
export interface CreatePopulation {
  /** Its name. */
  name: Name;
}

/** A token is wanted: for enrolment in a population, or for an operator when no population is named. */
export interface CreateToken {
  /** What it is for, for people. */
  label?: string;
  /** The population whose clients it may enrol; none makes an operator token. */
  population?: Name;
  /** Life time in milliseconds; for ever when left out. */
  valid_for_ms?: number;
}

/** A new token with its secret, which is shown this once. */
export interface CreatedToken {
  /** The credential. */
  secret: Secret;
  /** What can be seen of it later. */
  token: Token;
}

/** The learning curve of a job, thinned out by the coordinator. */
export interface Curve {
  /**
   * Ended training rounds in order; the first, the last, and the best and worst of each stretch in
   * between.
   */
  points: CurvePoint[];
  /** How many rounds they stand for. */
  rounds: number;
  /** What it took to reach accuracies, as far as they were reached. */
  targets: Target[];
}

/**
 * An ended training round as a point of a curve. What is cumulative counts all training rounds up to
 * this one.
 */
export interface CurvePoint {
  /** Whether it ended without a result. */
  abandoned: boolean;
  /** Accuracy of its model. */
  accuracy?: number;
  /** When it ended. */
  at_ms: number;
  /** Bytes that clients fetched, cumulative. */
  bytes_down: number;
  /** Bytes that clients sent, cumulative. */
  bytes_up: number;
  /** Time that clients worked, cumulative, in milliseconds. */
  clients_ms: number;
  /** Clients selected. */
  cohort: number;
  /** Loss of its model. */
  loss?: number;
  /** Reports counted. */
  reported: number;
  /** Its number. */
  round: number;
  /** Mean training loss of its updates. */
  training_loss?: number;
  /** Time from the job's creation to that, in milliseconds. */
  wall_ms: number;
}

/**
 * How fast a database answers, over the last transactions of the coordinator that tells it; none
 * before the first ones.
 */
export interface DbLatency {
  /** Median of the time to get a snapshot to read from, in milliseconds. */
  read_ms_p50?: number;
  /** The time that 99 of 100 stay below. */
  read_ms_p99?: number;
  /**
   * Median of the time to get a transaction that writes, in milliseconds: on SQLite, writers queue for
   * it.
   */
  write_ms_p50?: number;
  /** The time that 99 of 100 stay below. */
  write_ms_p99?: number;
}

/** One client's work in one round. */
export interface DeviceAssignment {
  /** Time left until the round closes, in milliseconds (a duration, because device clocks are wrong). */
  deadline_in_ms: number;
  /** The file to start from instead, in the form that the plan names. */
  form?: FormFile;
  /** Its id: names the update. */
  id: AssignmentId;
  /** The job. */
  job: JobId;
  /** Content hash of that version's safetensors file. */
  model_sha256: Sha256Hash;
  /** The model version to start from. */
  model_version: number;
  /** What to do. */
  plan: Plan;
  /** The round's number in its job, from 1. */
  round: number;
  /** Every random choice of the client in this round derives from it. */
  seed: Seed;
  /**
   * The last steps that lead to that version, at most [`crate::download::DELTA_CHAIN_MAX`], in their
   * order.
   */
  steps?: StepFile[];
  /** Train or evaluate. */
  task: Task;
}

/** How a device is at a check-in. */
export interface DeviceState {
  /** Charge of the battery, 0 to 100; none on machines without one. */
  battery_percent?: number;
  /** Whether it is being charged. */
  charging?: boolean;
  /** Examples that it holds. */
  examples: number;
  /** Whether its connection costs by the byte. */
  metered?: boolean;
}

/** Settings of `dgc`. */
export interface Dgc {
  /**
   * Longest L2 norm of a delta before it is accumulated; 0 for none. With N clients in a round the paper
   * takes the length that their sum may have, over the square root of N.
   */
  clip?: number;
  /** Share of the values that is sent once warmed up. */
  density?: number;
  /** Momentum, 0 to 1. */
  momentum?: number;
  /** Whether the momentum of values that are sent starts anew (momentum factor masking). */
  momentum_masking?: boolean;
  /** Rounds after which a device forgets what it did not send, and its momentum. */
  residual_age_rounds_max?: number;
  /** How the values are written that are sent. */
  values?: SparseValues;
  /** Rounds over which the density falls to `density`. */
  warm_up_rounds?: number;
}

/** How models travel to the clients (`[download]` of a job file). */
export interface Download {
  /** The form in which training clients and evaluators fetch the model. */
  codec?: ModelForm;
  /**
   * Whether each round's step is rounded to 8-bit numbers, so that a client that has the version before
   * fetches only those. The step that is added to the model is the rounded one: model and file never
   * drift apart.
   */
  delta?: boolean;
}

/** Settings of `eden`. */
export interface Eden {
  /** Bits for each value, 1 to 4. */
  bits?: number;
}

/** Who may take part (`[eligibility]`). */
export interface Eligibility {
  /** Attributes that a client must have with these values. */
  attributes?: Record<string, string>;
  /** Fewest examples that a client must hold. */
  examples_min?: number;
  /** Rounds that must pass before the same client is drawn again (0: it may be drawn every round). */
  separation_rounds?: number;
}

/** A kind of database. */
export type Engine = "sqlite" | "postgres";

/** A device asks to become a client. */
export interface EnrolRequest {
  /** What it is. */
  attributes?: Attributes;
}

/** The device is a client now. */
export interface EnrolResponse {
  /** Its id. */
  client: ClientId;
  /** The population it belongs to. */
  population: Name;
  /** Its credential; the coordinator keeps only a hash. */
  secret: Secret;
}

/** Measuring the global model on clients (`[evaluation]`). */
export interface EvaluationPolicy {
  /**
   * Attributes that make a client an evaluator. Evaluators do not train. When empty, any client that may
   * train may evaluate, on the examples it has.
   */
  attributes?: Record<string, string>;
  /** How long its clients have. */
  deadline_ms?: number;
  /** A version is evaluated each time that this many rounds were committed, and at the end of the job. */
  every_rounds?: number;
  /** Clients selected per report of the goal. */
  over_selection?: number;
  /** Reports that close an evaluation early. */
  reports_goal?: number;
  /** Reports without which the deadline abandons it. */
  reports_min?: number;
  /** How long an evaluation waits for available clients. */
  selection_timeout_ms?: number;
}

/** What a client measured. */
export interface EvaluationReport {
  /** Share of examples classified rightly, 0 to 1; none for regression. */
  accuracy?: number;
  /** Time spent, in milliseconds. */
  evaluate_ms: number;
  /** Number of examples measured on: the report's weight. */
  examples: number;
  /** Mean loss per example. */
  loss: number;
}

/** Something that happened, for those who watch: look the round up for the details. */
export interface Event {
  /** Which assignment; none for events of the round itself. */
  assignment?: AssignmentId;
  /** When. */
  at_ms: number;
  /** The new phase or state, in its word. */
  became: string;
  /** Why, where there is a reason. */
  cause?: string;
  /** Which job. */
  job: JobId;
  /** Which round; none for events of the job itself. */
  round?: number;
  /** Rises by one with each event of the job. */
  sequence: number;
  /** Training or evaluation, with `round`. */
  task?: Task;
}

/** Why a client gave up. */
export type FailureReason = "interrupted" | "out_of_memory" | "no_data" | "diverged" | "does_not_fit" | "other";

/** A client gives up. */
export interface FailureReport {
  /** For the operator; at most [`DETAIL_BYTES_MAX`] bytes. */
  detail?: string;
  /** Why. */
  reason: FailureReason;
}

/** The file of a model in its job's form. */
export interface FormFile {
  /** Its length. */
  bytes: number;
  /** The form. */
  form: ModelForm;
  /** Hash of the body as it is sent, which may be one zstd frame. */
  sha256: Sha256Hash;
}

/** Which form. */
export type Format = "json" | "csv";

/** A height and a width, as a pair or as one number for both. */
export type HeightWidth = number | number[];

/** Where model version 0 comes from. */
export type InitialModel = "random" | "upload";

/** A job as operators see it. */
export interface Job {
  /** When it was made. */
  created_at_ms: number;
  /** When it stopped or was completed. */
  ended_at_ms?: number;
  /** The job file, with the seed filled in. */
  file: JobFile;
  /** Its id. */
  id: JobId;
  /** Newest model version; none while the job waits for version 0. */
  model_version?: number;
  /** Parameters of the model. */
  parameters: number;
  /** Hash of the plan that its clients follow. */
  plan_hash: Sha256Hash;
  /** Rounds committed so far. */
  rounds_committed: number;
  /**
   * No training round opens before this time: its schedule or the pause after abandoned rounds says so.
   * None when one may open at any moment, or only after an operator acted.
   */
  rounds_not_before_ms?: number;
  /** Rounds opened so far. */
  rounds_opened: number;
  /** Where it stands. */
  state: JobState;
}

/** A job file that was only tried. */
export interface JobDraft {
  /** The file as the coordinator understands it: with every default that it has. */
  job: JobFile;
  /** Parameters of its model. */
  parameters: number;
  /** The same as TOML. */
  toml: string;
}

/** A job: what is learned, by whom, how. */
export interface JobFile {
  /** How updates become the next version. */
  aggregation?: Aggregation;
  /** How models travel to the clients. */
  download?: Download;
  /** Who may take part. */
  eligibility?: Eligibility;
  /** Measuring the global model on clients; none when left out. */
  evaluation?: EvaluationPolicy;
  /** Where model version 0 comes from. */
  initial_model?: InitialModel;
  /** The network, or the names and shapes of an app's own. */
  model: ModelSpec;
  /** The job's name, unique in its population. */
  name: Name;
  /** Whose clients learn it. */
  population: Name;
  /** What is kept of the job's models and rounds. */
  retention?: Retention;
  /** When a round opens, closes and gives up. */
  round?: RoundPolicy;
  /** When rounds may start; at any time when left out. */
  schedule?: Schedule;
  /** Every random choice of the job derives from it; drawn by the coordinator when left out. */
  seed?: Seed;
  /** When the job is complete; it goes on for ever when left out. */
  stop?: StopPolicy;
  /** Local training. */
  training: Training;
  /** How updates travel and what they may be. */
  update?: UpdatePolicy;
}

/** One job. */
export type JobId = string;

/** A job at a glance. */
export interface JobOverview {
  /** Accuracy of the newest measured version. */
  accuracy?: number;
  /** Best accuracy of any of its versions. */
  best_accuracy?: number;
  /** Bytes that clients fetched in all of its rounds. */
  bytes_down: number;
  /** Bytes that clients sent in all of its rounds. */
  bytes_up: number;
  /** The job. */
  job: JobSummary;
  /** The last training round that ended. */
  last_round?: Round;
  /** Loss of the newest measured version. */
  loss?: number;
  /** Its open rounds, training and evaluation. */
  open_rounds: OpenRound[];
  /** At most 60 points of its learning curve. */
  spark: [number, number | null, number | null][];
}

/** Where a job stands. */
export type JobState = "awaiting_model" | "running" | "paused" | "stopped" | "completed";

/** What a list of jobs shows of one. */
export interface JobSummary {
  /** How its updates are encoded. */
  codec: Codec;
  /** When it was made. */
  created_at_ms: number;
  /** When it stopped or was completed. */
  ended_at_ms?: number;
  /** Its id. */
  id: JobId;
  /** Newest model version; none while the job waits for version 0. */
  model_version?: number;
  /** Its name. */
  name: Name;
  /** Parameters of the model. */
  parameters: number;
  /** Whose clients learn it. */
  population: Name;
  /** Rounds committed so far. */
  rounds_committed: number;
  /** No training round opens before this time. */
  rounds_not_before_ms?: number;
  /** Rounds opened so far. */
  rounds_opened: number;
  /** Where it stands. */
  state: JobState;
  /** When it is complete. */
  stop: StopPolicy;
}

/** One layer. Settings that are left out have PyTorch's defaults. */
export type Layer =
  | {
      /** Adds `b`. */
      bias?: boolean;
      kind: "linear";
      /** Length of the last dimension of the output. */
      out_features: number;
    }
  | {
      /** Adds a number to each channel. */
      bias?: boolean;
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "conv2d";
      /** Channels of the output. */
      out_channels: number;
      /** Zeros around the input. */
      padding?: Padding;
      /** Steps of the window. */
      stride?: HeightWidth;
    }
  | {
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "max_pool2d";
      /** Steps of the window; the window's size unless given. */
      stride?: HeightWidth;
    }
  | {
      /** Size of the window. */
      kernel_size: HeightWidth;
      kind: "avg_pool2d";
      /** Steps of the window; the window's size unless given. */
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
      /** In `[0, 1)`. */
      probability: number;
    }
  | {
      /** Added to the variance. */
      epsilon?: number;
      kind: "layer_norm";
    }
  | {
      /** Added to the variance. */
      epsilon?: number;
      kind: "batch_norm";
      /** Share of the running statistics that a batch replaces. */
      momentum?: number;
    }
  | {
      kind: "embedding";
      /** Length of the vectors. */
      size: number;
      /** Size of the vocabulary: ids are `0..tokens`. */
      tokens: number;
    }
  | {
      /** Length of the state. */
      hidden_size: number;
      kind: "lstm";
      /** Puts out the state after every time step, not only after the last. */
      return_sequences?: boolean;
    }
  | {
      /** Length of the state. */
      hidden_size: number;
      kind: "gru";
      /** Puts out the state after every time step, not only after the last. */
      return_sequences?: boolean;
    };

/** The right to drive a job, for a while. */
export interface Lease {
  /** When it ends unless it is renewed. */
  expires_at_ms: number;
  /** Which job. */
  job: JobId;
  /** How often the job has changed hands. */
  token: number;
}

/** What is minimised, averaged over the batch. */
export type Loss = "cross_entropy" | "mse";

/** How the values of a whole model are written. */
export type ModelForm = "f32" | "f16" | "int8";

/** The network as layers, or the names and shapes of an app's own. */
export type ModelSpec =
  | {
      input: number[];
      layers: Layer[];
    }
  | {
      parameters: ParameterSpec[];
    };

/** A model version. */
export interface ModelVersion {
  /** Size of that file. */
  bytes: number;
  /** When it was stored. */
  created_at_ms: number;
  /** When its file was deleted, as the job's retention says; what stands here stays. */
  deleted_at_ms?: number;
  /** The round that made it; none for version 0. */
  round?: number;
  /** Content hash of its safetensors file. */
  sha256: Sha256Hash;
  /** Its number, from 0. */
  version: number;
}

/** Which model versions are kept. */
export type ModelsKept =
  | "all"
  | {
      /** The newest n. */
      last: number;
    }
  | {
      /** Those whose number n divides: 0, n, 2n, .. */
      every: number;
    };

/** The name of a population, a job or a coordinator. */
export type Name = string;

export type NoSettings = Record<string, never>;

/** A coordinator process. */
export interface Node {
  /** Its name. */
  id: Name;
  /** The jobs that it drives. */
  leases: Lease[];
  /** When it was last heard of. */
  seen_at_ms: number;
  /** When it started. */
  started_at_ms: number;
  /** Release of its program. */
  version: string;
}

/** An open round and its cohort. */
export type OpenRound = Round & {
  /** Its cohort by client number; at most 500 of it. */
  cells: Cell[];
};

/** How a step changes the weights. Formulas as in PyTorch, so that settings carry over. */
export type Optimizer =
  | {
      kind: "sgd";
      /** Step size. */
      learning_rate: number;
      /** Velocity kept from step to step, in `[0, 1)`. */
      momentum?: number;
      /** Looks ahead along the velocity; needs a momentum. */
      nesterov?: boolean;
      /** L2 penalty added to the gradient. */
      weight_decay?: number;
    }
  | {
      /** Decay of the first moment. */
      beta1?: number;
      /** Decay of the second moment. */
      beta2?: number;
      /** Added to the denominator. */
      epsilon?: number;
      kind: "adam";
      /** Step size. */
      learning_rate: number;
      /** L2 penalty added to the gradient. */
      weight_decay?: number;
    }
  | {
      /** Decay of the first moment. */
      beta1?: number;
      /** Decay of the second moment. */
      beta2?: number;
      /** Added to the denominator. */
      epsilon?: number;
      kind: "adam_w";
      /** Step size. */
      learning_rate: number;
      /** Share of a weight that a step takes away, times the learning rate. */
      weight_decay?: number;
    };

/** The order of a list. */
export type Order = "asc" | "desc";

/** What a coordinator does right now. */
export interface Overview {
  /** The jobs: those that may still run first, then the others; of each the newest first. At most 100. */
  jobs: JobOverview[];
  /** What its clock shows. */
  now_at_ms: number;
  /** The populations, by name. */
  populations: Population[];
  /** Release of the coordinator. */
  version: string;
}

/** Zeros around the input: a word, a number or a pair [height, width]. */
export type Padding = number | number[] | ("valid" | "same");

/**
 * One tensor of a model: its name, as a PyTorch user would write it, and its shape in PyTorch's
 * layout.
 */
export interface ParameterSpec {
  /** For example `layers.0.weight`. */
  name: string;
  /** Length of each dimension; empty for a scalar. */
  shape: number[];
}

/** Where a round stands; it only ever moves down this list. */
export type Phase = "selecting" | "training" | "aggregating" | "committed" | "abandoned";

/** A phase of a round. */
export interface PhaseSpan {
  /** When it began. */
  began_at_ms: number;
  /** When it ended; none while it lasts. */
  ended_at_ms?: number;
  /** Which phase: selecting, training or aggregating. */
  phase: Phase;
}

/** What a client does in a round; the same for every client of a job. */
export interface Plan {
  /** How updates are encoded. */
  codec: Codec;
  /** How models travel. Left out where they travel as they are, so that plans keep their hashes. */
  download?: Download;
  /** The network, or the names and shapes of the app's own. */
  model: ModelSpec;
  /** Local training. */
  training: Training;
  /** Largest weight to claim: a client with more examples says this. */
  weight_max: number;
}

/** A population. */
export interface Population {
  /** Enrolled clients. */
  clients: number;
  /** When it was made. */
  created_at_ms: number;
  /** Its name. */
  name: Name;
}

/** A problem document. */
export interface Problem {
  /** What went wrong this time, and what the caller can do. */
  detail: string;
  /**
   * The request that it answers, by the name that the coordinator's log has for it; also in the header
   * `x-request-id`.
   */
  request_id?: string;
  /** When a retry makes sense: how long to wait, in milliseconds. */
  retry_after_ms?: number;
  /** The HTTP status. */
  status: number;
  /** The type's sentence. */
  title: string;
  /** What went wrong. */
  type: ProblemType;
}

/** What went wrong, as a program tells it apart. */
export type ProblemType =
  | "urn:tributary:problem:malformed"
  | "urn:tributary:problem:unauthorized"
  | "urn:tributary:problem:forbidden"
  | "urn:tributary:problem:not-found"
  | "urn:tributary:problem:method-not-allowed"
  | "urn:tributary:problem:name-taken"
  | "urn:tributary:problem:wrong-state"
  | "urn:tributary:problem:update-conflict"
  | "urn:tributary:problem:upload-offset"
  | "urn:tributary:problem:upload-superseded"
  | "urn:tributary:problem:digest-mismatch"
  | "urn:tributary:problem:assignment-closed"
  | "urn:tributary:problem:deleted"
  | "urn:tributary:problem:too-large"
  | "urn:tributary:problem:range-not-satisfiable"
  | "urn:tributary:problem:update-rejected"
  | "urn:tributary:problem:job-file-invalid"
  | "urn:tributary:problem:model-invalid"
  | "urn:tributary:problem:too-many-requests"
  | "urn:tributary:problem:internal"
  | "urn:tributary:problem:unavailable";

/** Settings of `qsgd`. */
export interface Qsgd {
  /** Values that share a norm: 16 to 262,144; buckets begin anew with each parameter. */
  bucket?: number;
  /**
   * Levels above zero, s in the paper: 1 to 16,384. Twice the levels halve the noise at least and cost
   * less than one bit more for each value.
   */
  levels?: number;
}

/** Settings of `random_k`. */
export interface RandomK {
  /** Share of the values that is sent on average. */
  density?: number;
  /** How the values are written that are sent; not as signs, which would not be unbiased. */
  values?: SparseValues;
}

/** A report was accepted (and stored: it will not be asked for again). */
export interface ReportAccepted {
  /** How long to wait before the next check-in, in milliseconds. */
  retry_after_ms: number;
}

/** What is kept (`[retention]`). */
export interface Retention {
  /**
   * Days after which the assignments and events of an ended round are deleted; its summary stays. Left
   * out: never.
   */
  history_days?: number;
  /** Which model versions. The newest, and those that open rounds use, are kept whatever this says. */
  models?: ModelsKept;
}

/** A round as operators see it. */
export interface Round {
  /** Accuracy of the resulting model over the evaluators, weighted by examples, 0 to 1. */
  accuracy?: number;
  /** Members of the cohort that still work. */
  assigned?: number;
  /** The model version that it started from. */
  base_version: number;
  /** Bytes that clients fetched in this round (model bodies). */
  bytes_down: number;
  /**
   * Bytes that clients sent in this round (bodies of reports, those that broke off or were refused
   * included).
   */
  bytes_up: number;
  /**
   * Sum of the time that clients say they worked for their reports, in milliseconds; of each at most the
   * time that its assignment was open.
   */
  clients_ms?: number;
  /** When it took its last report: from here on its result was made. */
  closed_at_ms?: number;
  /** Clients selected. */
  cohort: number;
  /** When the cohort's time is up. */
  deadline_at_ms?: number;
  /**
   * Diversity of the updates: sum of the squared norms of the weighted deltas over the squared norm of
   * their sum (Yin et al. 2018, definition 1). 1 / updates when all point the same way, 1 when they are
   * orthogonal.
   */
  diversity?: number;
  /** When it was committed or abandoned. */
  ended_at_ms?: number;
  /** Stragglers. */
  expired: number;
  /** Clients that gave up. */
  failed: number;
  /**
   * Updates in the running sum of the coordinator that answers; all of `reported` unless it was just
   * started. None for rounds that it does not sum up.
   */
  folded?: number;
  /** Reports that close it early. */
  goal: number;
  /** Mean loss of the resulting model over the evaluators, weighted by examples. */
  loss?: number;
  /** Reports without which it is abandoned. */
  minimum: number;
  /** Its number in the job, from 1. An evaluation has the number of the round whose model it measures. */
  number: number;
  /** When it was opened. */
  opened_at_ms: number;
  /** Where it stands. */
  phase: Phase;
  /** What the fetched models would have taken as plain f32 files. */
  raw_bytes_down?: number;
  /** What the accepted reports would have taken as plain f32 files. */
  raw_bytes_up?: number;
  /** Why it was abandoned. */
  reason?: AbandonReason;
  /** Updates refused. */
  rejected: number;
  /** Reports counted. */
  reported: number;
  /** Seed of the cohort and of what its clients draw. */
  seed: Seed;
  /** When the cohort was drawn. */
  selected_at_ms?: number;
  /** L2 norm of the step from the base version to the result. */
  step_norm?: number;
  /** Training or evaluation. */
  task: Task;
  /** Mean training loss over the reported updates, weighted by examples. */
  training_loss?: number;
  /** Sum of the reported weights (examples). */
  weight: number;
}

/** A round, and what to make of it. */
export interface RoundDetail {
  /** The evaluation of the model that it made. */
  evaluation?: Round;
  /** One sentence: what it waits for, why it took so long, or why it was abandoned. */
  explanation: string;
  /** The phases that it went through, in order. */
  phases: PhaseSpan[];
  /** The round. */
  round: Round;
  /**
   * What other deadlines would have dropped; empty before it closed and after its assignments were
   * deleted.
   */
  what_if: WhatIf[];
}

/** When a round opens, closes and gives up (`[round]`). */
export interface RoundPolicy {
  /** Clients that must be available before a cohort is drawn; at least the cohort's size. */
  available_min?: number;
  /** Longest pause after abandoned rounds. */
  backoff_max_ms?: number;
  /** Pause after an abandoned round; it doubles with each further one. */
  backoff_ms?: number;
  /** How long a cohort has from its selection to its last counted update. */
  deadline_ms?: number;
  /** Clients selected per update of the goal: the spare ones make up for stragglers. */
  over_selection?: number;
  /** How long a round waits for available clients. */
  selection_timeout_ms?: number;
  /** Updates that close a round early. */
  updates_goal?: number;
  /** Updates without which the deadline abandons the round. */
  updates_min?: number;
}

/** New values for settings of `[round]`; those that are left out stay. */
export interface RoundPolicyChange {
  /** Clients that must be available before a cohort is drawn. */
  available_min?: number;
  /** Longest pause after abandoned rounds. */
  backoff_max_ms?: number;
  /** Pause after an abandoned round. */
  backoff_ms?: number;
  /** How long a cohort has. */
  deadline_ms?: number;
  /** Clients selected per update of the goal. */
  over_selection?: number;
  /** How long a round waits for available clients. */
  selection_timeout_ms?: number;
  /** Updates that close a round early. */
  updates_goal?: number;
  /** Updates without which the deadline abandons the round. */
  updates_min?: number;
}

/** When rounds may start (`[schedule]`). */
export interface Schedule {
  /**
   * The minutes in which a training round may open, as a cron expression: minute, hour, day of month,
   * month, day of week. `* 22-23,0-5 * * *` is every minute of the nights from 22:00 to 5:59.
   */
  rounds: string;
  /** The zone whose wall clocks the expression is about, by its IANA name: `Europe/Berlin`. */
  time_zone?: string;
}

/** A run of scheduled work. */
export interface ScheduledRun {
  /**
   * When it ended; none while it runs, or if its coordinator was killed (the next run does what is
   * left).
   */
  ended_at_ms?: number;
  /** Whether it failed. */
  failed: boolean;
  /** Which coordinator ran it. */
  node: string;
  /** What was done, or why it failed. */
  outcome: string;
  /** When it began. */
  started_at_ms: number;
}

/** Work that the coordinators do by the clock, once for all of them. */
export interface ScheduledWork {
  /** When, as a cron expression: minute, hour, day of month, month, day of week. */
  cron: string;
  /** The last run; none before the first one. */
  last?: ScheduledRun;
  /** What is done: `retention` or `upkeep`. */
  name: string;
  /** When it is due next. */
  next_at_ms: number;
  /** The zone of the expression. */
  time_zone: string;
}

/** A bearer credential. */
export type Secret = string;

/**
 * A 64-bit seed. Serialised as a number that JSON readers with 53-bit integers keep exact (see
 * [`Seed::derive`]).
 */
export type Seed = number;

/** The SHA-256 of some bytes. */
export type Sha256Hash = string;

/** How often a session took a course. */
export interface ShapeCount {
  /** The same by the value of the attribute that was asked for. */
  by_class?: Record<string, number>;
  /** How many sessions had it. */
  count: number;
  /** The shape, as in `Assignment::shape`. */
  shape: string;
}

/** How the values of a sparse codec are written. */
export type SparseValues = "f16" | "int8" | "sign" | "f32";

/** The file of a step: what a version has that the one before has not. */
export interface StepFile {
  /** Hash of the plain file of the version before. */
  base_sha256: Sha256Hash;
  /** Its length. */
  bytes: number;
  /** Hash of the step's body as it is sent, which may be one zstd frame. */
  sha256: Sha256Hash;
  /** The version that it leads to, from the one before. */
  version: number;
}

/** When a job is complete (`[stop]`); whichever comes first. */
export interface StopPolicy {
  /** Accuracy of an evaluated version, between 0 and 1. */
  accuracy?: number;
  /** Committed rounds. */
  rounds?: number;
}

/** What is stored, in bytes. */
export interface Storage {
  /** Size of the database; none where it does not tell. */
  database_bytes?: number;
  /** Bodies of models, wherever they are. */
  models_bytes: number;
  /** Bodies of updates in open rounds, wherever they are. */
  updates_bytes: number;
}

/** How a coordinator and its database are. */
export interface System {
  /** Check-ins per second at the coordinator that answers, over the last minute. */
  checkins_per_s: number;
  /** How fast its database answers. */
  db: DbLatency;
  /** The database. */
  engine: Engine;
  /** Clients that it holds. */
  held_clients: number;
  /** All coordinators of the database, with their leases. */
  nodes: Node[];
  /** Work that is done by the clock. */
  schedules: ScheduledWork[];
  /** When it started. */
  started_at_ms: number;
  /** What is stored. */
  storage: Storage;
  /** Updates that it receives. */
  updates_in_flight: number;
  /** Release of the coordinator that answers. */
  version: string;
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
    });

/** What it took to reach an accuracy for the first time. */
export interface Target {
  /** The accuracy. */
  accuracy: number;
  /** When that round ended. */
  at_ms: number;
  /** Bytes that clients had sent by then. */
  bytes_up: number;
  /** Time that clients had worked by then, in milliseconds. */
  clients_ms: number;
  /** The round whose model reached it. */
  round: number;
}

/** What the clients of a round do. */
export type Task = "train" | "evaluate";

/** Settings of `ternary`. */
export interface Ternary {
  /**
   * Values are clipped at so many standard deviations of their section (the paper: 2.5); 0 for none,
   * which alone is unbiased.
   */
  clip?: number;
  /**
   * The scale in largest magnitudes, 1 to 1024. Twice the scale sends half as many values with about
   * twice the noise, still unbiased: for cohorts so large that the noise does not matter.
   */
  scale?: number;
}

/** A token without its secret. */
export interface Token {
  /** When it was made. */
  created_at_ms: number;
  /** When it stops working by itself. */
  expires_at_ms?: number;
  /** Its id. */
  id: TokenId;
  /** What it is for. */
  label: string;
  /** The population it enrols in; none for an operator token. */
  population?: Name;
  /** When it was revoked. */
  revoked_at_ms?: number;
}

/** One operator or enrolment token (not its secret). */
export type TokenId = string;

/** Settings of `top_k`. */
export interface TopK {
  /** Share of the values that is sent: the whole number next above this share of them. */
  density?: number;
  /** Rounds after which a device forgets what it did not send. */
  residual_age_rounds_max?: number;
  /** How the values are written that are sent. */
  values?: SparseValues;
}

/** Local training (`[training]` of a job file). */
export interface Training {
  /** Examples in a step; left out, a step takes all examples of the client (full batch). */
  batch_size?: number;
  /** Passes over the client's examples. Either this or `steps` is given. */
  epochs?: number;
  /** What is minimised. */
  loss?: Loss;
  /** How a step changes the weights. */
  optimizer: Optimizer;
  /** Draws a new order of the examples for each epoch (on unless the job says otherwise). */
  shuffle?: boolean;
  /** Optimiser steps, however many examples the client has. Either this or `epochs` is given. */
  steps?: number;
}

/** How updates travel and what they may be (`[update]`). */
export interface UpdatePolicy {
  /** How weight deltas are encoded: a name, or a table with a name and settings. */
  codec?: Codec;
  /** Largest absolute value of one element of a delta: beyond it an update is refused. */
  magnitude_max?: number;
  /** Largest weight (number of examples) of one update: clients cap theirs, the coordinator refuses more. */
  weight_max?: number;
}

/** What another deadline would have done to a round that has closed. */
export interface WhatIf {
  /** The deadline, from the selection of the cohort, in milliseconds. */
  deadline_ms: number;
  /**
   * Members of the cohort whose report would not have come in time (those that gave up or were refused
   * count too).
   */
  dropped: number;
}
