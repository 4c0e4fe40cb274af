// The Tributary SDK in a web page. Training runs in a Web Worker, so the page stays responsive.

export interface Options {
  /** The coordinator's address, for example `https://fl.example.org`. */
  server: string;
  /** Admits the client to a population: `tributary_enrolment_..`. */
  token: string;
  /** Name of the IndexedDB database with the client's identity, model and undelivered work. Default: `tributary`. */
  store?: string;
  /** Describes the device; jobs choose clients by attributes. At most 32. */
  attributes?: Record<string, string>;
  /**
   * The consent with which the client takes part, told at its enrolment: a name of the text that was agreed to, of 1 to
   * 128 bytes, and when, in milliseconds since 1970.
   */
  consent?: { text: string; givenAtMs: number };
  /** The channels whose releases sessions get, at most 8. */
  channels?: string[];
  /**
   * What the page demands of every job, whatever an operator configures. `secureAggregation`: only jobs whose updates
   * are masked. `survivorsMin`: the fewest members whose updates are in a sum. `signed`: only groups whose members sign.
   * `epsilonMax`: the largest epsilon that this client spends in a job, against the coordinator, but for a chance of
   * `delta` (1e-6): it counts its own updates, to which the members of its groups add noise. `clipMax`: the largest norm
   * to which updates are clipped.
   */
  privacyFloor?: {
    secureAggregation?: boolean;
    survivorsMin?: number;
    signed?: boolean;
    epsilonMax?: number;
    delta?: number;
    clipMax?: number;
  };
  /** How long the coordinator may hold a check-in while it has no work: 30,000 ms by default, 60,000 at most. */
  waitMs?: number;
  /**
   * How many seconds lie between two checkpoints of a training on the CPU, from which the next session goes on after the
   * page was closed: 300 by default, 0 for none.
   */
  checkpointEveryS?: number;
  /** Allows `http:` to other machines: everyone on the way can read models and updates. */
  allowPlaintext?: boolean;
  /**
   * What trains. `cpu`, the default: the CPU. `auto`: the GPU (WebGPU) if the browser gives one that is no software,
   * and if there are kernels for the training, else the CPU. `gpu`: the GPU, whichever the browser gives. Without one
   * every call fails with `setup`, and a training without kernels with `training`. Evaluations are on the CPU.
   */
  device?: "cpu" | "auto" | "gpu";
  /**
   * Answers analyses: the values of all rows, by the names of their columns. It is asked before each session. Rows never
   * leave the device; what is sent are the sums that an analysis asks for. Without it, none is asked.
   */
  table?: () => Table | Promise<Table>;
}

/** Columns of as many values each. */
export type Table = Record<string, Value[]>;

export interface Examples {
  /** Shape of one input, for example `[64]`. */
  shape: number[];
  /** All inputs, one after the other; they never leave the device. */
  inputs: Float32Array;
  /** The class of each, from 0. */
  labels: Uint32Array;
}

/** How a session ended. */
export interface Outcome {
  /**
   * `contributed`: the coordinator accepted an update. `evaluated`: it accepted an evaluation. `nothing-to-do`: it had
   * no work. `too-late`: the round closed before the work was done. `interrupted`: the session was stopped.
   */
  kind: "contributed" | "evaluated" | "described" | "nothing-to-do" | "too-late" | "interrupted";
  /** The round's number in its job, from 1. */
  round?: number;
  /** Wait this long before the next session. */
  retryAfterMs: number;
  /** Bytes of the bodies of this session's requests. */
  sentBytes: number;
  /** Bytes of the bodies of its responses. */
  receivedBytes: number;
  /** What was computed; absent where a session only delivered the work of an earlier one. */
  work?: {
    examples: number;
    loss: number;
    /** What computed it. */
    device: "cpu" | "gpu";
    /** Why the CPU trained although there is a GPU; absent where it did not. */
    insteadOfGpu?: string;
    steps?: number;
    accuracy?: number;
  };
  /** What the client waits for, if the coordinator said so. */
  waitsFor?: unknown;
}

/** Training goes on: so many batches are done. */
export interface Progress {
  kind: "training";
  batches: number;
}

/** What a running job requires of examples. */
export interface OpenJob {
  name: string;
  /** The example set that the job uses; absent for the one without a name. */
  data?: string;
  /** Shape of one input; absent for an app's own network. */
  input?: number[];
  /** Shape of the network's output; its last length is the number of classes. */
  output?: number[];
  loss: string;
}

/** Why a session failed. Finished work is stored before it is sent: a later session delivers it. */
export interface ClientError extends Error {
  /**
   * `server`, `exposed`, `token`, `setup`: an option cannot be used. `store`: the browser's database. `unreachable`,
   * `refused`, `answer`: the coordinator. `training`: the examples or the model. `cancelled`: by `cancel` or `close`.
   * `model`: a model that cannot be used, or a row that does not fit it. `worker`: the worker ended, or its files are
   * missing.
   */
  kind:
    | "server"
    | "exposed"
    | "token"
    | "setup"
    | "store"
    | "unreachable"
    | "refused"
    | "answer"
    | "training"
    | "cancelled"
    | "model"
    | "worker";
  /** How long to wait before the next session, where the coordinator said so. */
  retryAfterMs?: number;
}

/** One client of a coordinator. Two clients must not use one store at a time. */
export class Client {
  /** Nothing is read or sent before the first call. */
  constructor(options: Options);
  /** The client's id. Enrols it first if it has none. */
  enrol(): Promise<string>;
  /**
   * Deletes what the page has stored, and has the coordinator delete what it has stored of the client. Whether the
   * coordinator knows; otherwise call it again, or the next session tells it.
   */
  leave(): Promise<boolean>;
  /** The requirements of the population's running jobs. It needs no enrolment. */
  openJobs(): Promise<OpenJob[]>;
  /**
   * Runs one session: it delivers finished work of an earlier session, or checks in and does the work of one round. One
   * call at a time.
   */
  runOnce(examples: Examples, onProgress?: (progress: Progress) => void): Promise<Outcome>;
  /**
   * The same for a page with several models: example sets by the names that jobs give in `data`. A job without a name
   * uses the set whose name is the empty text. A page that only answers analyses has no sets: `runSets({})`.
   */
  runSets(sets: Record<string, Examples>, onProgress?: (progress: Progress) => void): Promise<Outcome>;
  /**
   * The model of a job that the client downloaded last, with its own personal parameters: from the database, without a
   * network, also while a session runs. `null` until it has taken part in a round of the job.
   */
  model(job: string): Promise<Model | null>;
  /**
   * The model that was released on a channel, such as `stable`, whether or not this client trains: the newest one, or
   * with `local` the one that is here. `null` until a release is here. A second client of the store must not run
   * meanwhile.
   */
  released(channel: string, freshness?: "latest" | "local"): Promise<Model | null>;
  /**
   * Ends what runs, at once; its promise is rejected as `cancelled`. What was stored stays, and the next call goes on
   * from it. A round that was being trained for is lost to this client.
   */
  cancel(): void;
  /** The same for good. */
  close(): void;
}

/** A value of a row: a number, the text of a category, a date (or its ISO text); what is missing is `null` or NaN. */
export type Value = number | string | Date | null | undefined;

/** What a model says of one row. */
export interface Prediction {
  /** The network's outputs. */
  outputs: number[];
  /** The most probable class, from 0; `null` for numbers. */
  class: number | null;
  /** Its name, or its number where classes have no names; `null` for numbers. */
  label: string | null;
  /** Probability of each class in their order; empty for numbers. */
  probabilities: number[];
  /** The predicted numbers in the target's unit; empty for classes. */
  numbers: number[];
}

/** A model that predicts in a worker of its own, without a network. */
export class Model {
  private constructor();
  /** The model of a file that `tributary job export` wrote. Rejected as `model` if it is damaged or no such file. */
  static fromBytes(bytes: ArrayBuffer | Uint8Array): Promise<Model>;
  /** Job, version, hashes, loss, and with `model` layers and inputs. */
  readonly card: { job: string; version: number; loss: string; model: Record<string, unknown> };
  /** Names of the columns, in the order of a row's values; empty if the job named none. */
  readonly columns: string[];
  /** Names of the classes in the order of the outputs; empty if they have none. */
  readonly classes: string[];
  /**
   * Predicts a row: values by the names of their columns, where others are ignored, or raw numbers in the order of
   * `columns` (categories by their code). Rejected as `model`, with the name of the column that does not fit.
   */
  predict(row: Record<string, Value> | ArrayLike<number | Date | null> & Iterable<number | Date | null>): Promise<Prediction>;
  /** Ends its worker, for good. */
  close(): void;
}
