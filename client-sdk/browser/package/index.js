// The page's side: starts workers, hands calls over, and ends them.

/** An error with a `kind`. */
function failure({ message, kind, retryAfterMs }) {
  const error = Object.assign(new Error(message), { name: "ClientError", kind });
  return retryAfterMs === undefined ? error : Object.assign(error, { retryAfterMs });
}

/** A worker that starts with the first call, and its calls. */
class Calls {
  #open;
  #worker = null;
  #calls = new Map();
  #next = 1;
  #closed = null;

  /** `open` is the worker's first message. */
  constructor(open) {
    this.#open = open;
  }

  call(method, argument, onProgress) {
    if (this.#closed) return Promise.reject(failure({ message: this.#closed, kind: "cancelled" }));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, onProgress });
      this.#started().postMessage({ id, method, argument });
    });
  }

  /** Ends what runs. The next call starts another worker. */
  end(reason) {
    this.#worker?.terminate();
    this.#worker = null;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject } of calls) reject(failure(reason));
  }

  /** Refuses later calls with this text. */
  close(message) {
    this.#closed = message;
  }

  #started() {
    if (this.#worker) return this.#worker;
    // In one expression: that is how bundlers recognise a worker, and emit its files.
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "tributary" });
    worker.onmessage = ({ data }) => this.#answered(data);
    // A trap within WebAssembly, or a file that is not there.
    worker.onerror = (event) => {
      event.preventDefault?.();
      this.end({ message: `the worker failed: ${event.message ?? "its files cannot be loaded"}`, kind: "worker" });
    };
    worker.postMessage(this.#open);
    this.#worker = worker;
    return worker;
  }

  #answered({ id, value, error, progress }) {
    if (progress) {
      for (const call of this.#calls.values()) call.onProgress?.(progress);
      return;
    }
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (error) {
      call?.reject(failure(error));
      // After a trap the memory of the module may be half changed.
      if (error.kind === "worker") this.end(error);
    } else call?.resolve(value);
  }
}

const CANCELLED = { message: "the session was cancelled", kind: "cancelled" };

export class Client {
  #options;
  #table;
  #cancelled = 0;
  #calls;

  constructor({ table, ...options }) {
    this.#options = { store: "tributary", ...options, answers: table !== undefined };
    this.#table = table;
    this.#calls = new Calls({ method: "open", argument: this.#options });
  }

  enrol() {
    return this.#calls.call("enrol");
  }

  leave() {
    return this.#calls.call("leave");
  }

  openJobs() {
    return this.#calls.call("openJobs");
  }

  runOnce(examples, onProgress) {
    return this.runSets({ "": examples }, onProgress);
  }

  runSets(sets, onProgress) {
    const named = Object.entries(sets).map(([name, { shape, inputs, labels }]) => {
      const arrays = [Uint32Array.from(shape), Float32Array.from(inputs), Uint32Array.from(labels)];
      return [name, { shape: arrays[0], inputs: arrays[1], labels: arrays[2] }];
    });
    const run = (table) => this.#calls.call("runOnce", { named, table }, onProgress);
    return this.#table ? this.#rows().then(run) : run([]);
  }

  model(job) {
    // A worker of its own, which reads the database: a model predicts while the client trains.
    return opened({ job, options: this.#options });
  }

  released(channel, freshness = "latest") {
    return opened({ channel, freshness, options: this.#options });
  }

  /** The columns of the page's table. */
  async #rows() {
    const before = this.#cancelled;
    const columns = Object.entries(await this.#table());
    if (before !== this.#cancelled) throw failure(CANCELLED);
    return columns.map(([name, values]) => [name, Array.from(values, raw)]);
  }

  cancel() {
    this.#cancelled++;
    // A computation listens to nobody, so the worker ends. What it stored is whole: an entry is replaced in one step.
    this.#calls.end(CANCELLED);
  }

  close() {
    this.#calls.close("the client is closed");
    this.cancel();
  }
}

const MS_OF_A_DAY = 86_400_000;

/** A value as the worker reads it: dates are days since 1970, and what is missing is NaN. */
function raw(value) {
  if (value instanceof Date) return value.getTime() / MS_OF_A_DAY;
  return value ?? Number.NaN;
}

export class Model {
  #calls;

  constructor(calls, card) {
    this.#calls = calls;
    this.card = card;
    this.columns = (card.model.inputs?.columns ?? []).map(({ name }) => name);
    this.classes = card.model.inputs?.target?.classes ?? [];
  }

  static fromBytes(bytes) {
    return opened({ file: new Uint8Array(bytes) });
  }

  predict(row) {
    if (typeof row[Symbol.iterator] === "function") {
      return this.#calls.call("predict", { values: Float64Array.from(row, raw) });
    }
    return this.#calls.call("predict", { names: Object.keys(row), values: Object.values(row).map(raw) });
  }

  close() {
    this.#calls.close("the model is closed");
    this.#calls.end({ message: "the model was closed", kind: "cancelled" });
  }
}

/** A model in a worker of its own; null where the client has none of the job. */
async function opened(argument) {
  const calls = new Calls({ method: "openModel", argument });
  const nothing = { message: "there is no model", kind: "cancelled" };
  try {
    const card = await calls.call("card");
    if (card) return new Model(calls, card);
  } catch (error) {
    calls.end(nothing);
    throw error;
  }
  calls.end(nothing);
  return null;
}
