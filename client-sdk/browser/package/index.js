// The page's side: starts the worker, hands calls over, and ends it.

/** An error with a `kind`. */
function failure({ message, kind, retryAfterMs }) {
  const error = Object.assign(new Error(message), { name: "ClientError", kind });
  return retryAfterMs === undefined ? error : Object.assign(error, { retryAfterMs });
}

export class Client {
  #options;
  #worker = null;
  #calls = new Map();
  #next = 1;
  #closed = false;

  constructor(options) {
    this.#options = { store: "tributary", ...options };
  }

  enrol() {
    return this.#call("enrol");
  }

  openJobs() {
    return this.#call("openJobs");
  }

  runOnce({ shape, inputs, labels }, onProgress) {
    const arrays = [Uint32Array.from(shape), Float32Array.from(inputs), Uint32Array.from(labels)];
    return this.#call("runOnce", { shape: arrays[0], inputs: arrays[1], labels: arrays[2] }, onProgress);
  }

  cancel() {
    // A computation listens to nobody, so the worker ends. What it stored is whole: an entry is replaced in one step.
    this.#end({ message: "the session was cancelled", kind: "cancelled" });
  }

  close() {
    this.#closed = true;
    this.cancel();
  }

  #call(method, argument, onProgress) {
    if (this.#closed) return Promise.reject(failure({ message: "the client is closed", kind: "cancelled" }));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, onProgress });
      this.#started().postMessage({ id, method, argument });
    });
  }

  #started() {
    if (this.#worker) return this.#worker;
    // In one expression: that is how bundlers recognise a worker, and emit its files.
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "tributary" });
    worker.onmessage = ({ data }) => this.#answered(data);
    // A trap within WebAssembly, or a file that is not there.
    worker.onerror = (event) => {
      event.preventDefault?.();
      this.#end({ message: `the worker failed: ${event.message ?? "its files cannot be loaded"}`, kind: "worker" });
    };
    worker.postMessage({ method: "open", argument: this.#options });
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
      if (error.kind === "worker") this.#end(error);
    } else call?.resolve(value);
  }

  #end(reason) {
    this.#worker?.terminate();
    this.#worker = null;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject } of calls) reject(failure(reason));
  }
}
