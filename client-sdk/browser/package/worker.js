// The worker: the browser as the SDK sees it, and the calls of the page, one after the other.

import { Gpu } from "./gpu.js";
import { EntryStore } from "./store.js";
import start, { BrowserClient, BrowserModel, BrowserSets, BrowserTable } from "./tributary_browser.js";

const WASM = new URL("./tributary_browser_bg.wasm", import.meta.url);

class BrowserRequest {
  #answer;
  #stop = new AbortController();
  #reader = null;

  constructor(method, url, headers, body) {
    const named = [];
    for (let index = 0; index < headers.length; index += 2) named.push([headers[index], headers[index + 1]]);
    // The secret travels in a header. Neither cookies nor redirects nor the browser's cache have a part in it.
    const settings = { method, headers: named, body, credentials: "omit", redirect: "error", cache: "no-store" };
    this.#answer = fetch(url, { ...settings, referrerPolicy: "no-referrer", signal: this.#stop.signal });
    this.#answer.catch(() => {});
  }

  async head() {
    const response = await this.#answer;
    this.#reader = response.body?.getReader() ?? null;
    return [response.status, ...[...response.headers].flat()];
  }

  async piece() {
    if (!this.#reader) return undefined;
    const { done, value } = await this.#reader.read();
    return done ? undefined : value;
  }

  abort() {
    this.#stop.abort();
  }
}

class Browser {
  #store;
  #entries;
  #gpu;

  constructor(store, entries, gpu) {
    this.#store = store;
    this.#entries = entries;
    this.#gpu = gpu;
  }

  gpu() {
    return this.#gpu;
  }

  entries() {
    return this.#entries;
  }

  change(name, bytes) {
    this.#store.change(name, bytes);
  }

  stored() {
    return this.#store.stored();
  }

  request(method, url, headers, body) {
    return new BrowserRequest(method, url, headers, body);
  }

  sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, Math.min(ms, 2 ** 31 - 1)));
  }

  progress(event) {
    postMessage({ progress: JSON.parse(event) });
  }
}

async function open({ store, ...settings }) {
  await start({ module_or_path: WASM });
  let entries;
  try {
    entries = await EntryStore.open(store);
  } catch (error) {
    throw Object.assign(new Error(`the browser's database cannot be opened: ${error.message}`), { kind: "store" });
  }
  const browser = new Browser(entries, await entries.entries(), await Gpu.open(settings.device));
  return new BrowserClient(JSON.stringify(settings), browser);
}

/** The model of a file, one that was released, or the one that a client downloaded last; null where it has none. */
async function openModel({ file, job, channel, freshness, options }) {
  if (file) {
    await start({ module_or_path: WASM });
    return new BrowserModel(file);
  }
  const client = await open({ ...options, device: "cpu" });
  const model = channel ? await client.released(channel, freshness) : client.model(job);
  return model ?? null;
}

async function predicted(model, { values, names }) {
  return JSON.parse(names ? model.predictRow(names, values) : model.predict(values));
}

function setsOf(named) {
  const sets = new BrowserSets();
  for (const [name, { shape, inputs, labels }] of named) sets.add(name, shape, inputs, labels);
  return sets;
}

function tableOf(columns) {
  const table = new BrowserTable();
  for (const [name, values] of columns) table.add(name, values);
  return table;
}

async function answer(opened, method, argument) {
  const client = await opened;
  switch (method) {
    case "card":
      return client && JSON.parse(client.card());
    case "predict":
      return predicted(client, argument);
    case "enrol":
      return client.enrol();
    case "leave":
      return client.leave();
    case "openJobs":
      return JSON.parse(await client.openJobs());
    case "runOnce":
      return JSON.parse(await client.runOnce(setsOf(argument.named), tableOf(argument.table)));
    default:
      throw new Error(`there is no call ${method}`);
  }
}

// A client, or a model: a worker has one of them.
let opened;
let before = Promise.resolve();

onmessage = ({ data: { id, method, argument } }) => {
  if (method === "open" || method === "openModel") {
    opened = method === "open" ? open(argument) : openModel(argument);
    opened.catch(() => {});
    return;
  }
  before = before.then(async () => {
    try {
      postMessage({ id, value: await answer(opened, method, argument) });
    } catch (error) {
      const { message, retryAfterMs } = error;
      postMessage({ id, error: { message: String(message ?? error), kind: error.kind ?? "worker", retryAfterMs } });
    }
  });
};
