// Clients in a page that train on WebGPU end with the weights that the CPU gives. Chromium's adapter computes on the
// CPU (SwiftShader), so this is about numbers, not about speed.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ClientError, Client as InPage, Outcome } from "../../../client-sdk/browser/package/index";
import type { CreatedToken, Job } from "../src/api/types";
import { type Browser, launch } from "./chromium";
import { answered, asked, type Coordinator, start } from "./coordinator";

/** Largest difference of a weight after a round. */
const TOLERANCE = 1e-5;
/** What a client may ask for before the coordinator has its round. */
const SESSIONS_MAX = 20;
/** Not a multiple of the batch: the last batch of an epoch is smaller. */
const EXAMPLES = 23;
const CLASSES = 4;

interface Case {
  input: number[];
  layers: string;
  optimizer: string;
  /** Name of a parameter that nobody changes. */
  frozen?: string;
}

const MLP: Case = {
  input: [9],
  layers: `
    { kind = "linear", out_features = 33 }, { kind = "tanh" },
    { kind = "linear", out_features = 17, bias = false }, { kind = "sigmoid" },
    { kind = "linear", out_features = 20 }, { kind = "relu" },
    { kind = "linear", out_features = ${CLASSES} }`,
  optimizer: `kind = "sgd", learning_rate = 0.2, momentum = 0.9, nesterov = true, weight_decay = 0.01`,
  frozen: "layers.2.weight",
};
/** Windows that overlap, zeros, distances and sizes that differ by direction; the first layer needs no gradient. */
const CNN: Case = {
  input: [2, 11, 9],
  layers: `
    { kind = "conv2d", out_channels = 5, kernel_size = [3, 2], padding = "same" }, { kind = "relu" },
    { kind = "max_pool2d", kernel_size = 3, stride = [2, 1] },
    { kind = "conv2d", out_channels = 6, kernel_size = [2, 3], stride = [1, 2], padding = 1, bias = false },
    { kind = "tanh" },
    { kind = "max_pool2d", kernel_size = [2, 1] }, { kind = "flatten" },
    { kind = "linear", out_features = ${CLASSES} }`,
  optimizer: `kind = "sgd", learning_rate = 0.1, momentum = 0.5`,
};
const DROPOUT: Case = {
  input: [9],
  layers: `{ kind = "dropout", probability = 0.5 }, { kind = "linear", out_features = ${CLASSES} }`,
  optimizer: `kind = "sgd", learning_rate = 0.1`,
};

function jobFile(population: string, { input, layers, optimizer, frozen }: Case): string {
  // Every client of a round has another seed, so examples stay in their order. The default codec would round both
  // updates to the same values.
  return `name = "${population}"
population = "${population}"
seed = 7

[model]
input = ${JSON.stringify(input)}
layers = [${layers}]
${frozen ? `frozen = ["${frozen}"]` : ""}

[training]
epochs = 4
batch_size = 5
shuffle = false
optimizer = { ${optimizer} }

[round]
updates_goal = 1
updates_min = 1
over_selection = 1.0

[update]
codec = "f32"
`;
}

let folder: string;
let coordinator: Coordinator;
let browser: Browser;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tributary-gpu-"));
  const settings = ["serve", "--listen", "127.0.0.1:0", "--join", "--database", join(folder, "tributary.db")];
  coordinator = await start(settings, () => true, folder);
  browser = await launch(coordinator.url, { gpu: true });
  await load(browser.page);
});

afterAll(async () => {
  await browser?.close();
  await coordinator?.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens a page of the coordinator's origin with the package. */
async function load(page: Browser["page"]): Promise<void> {
  await page.goto(`${coordinator.url}/join/`);
  // As text, because the test runner would rewrite the import of a function.
  await page.evaluate(`import("/join/tributary/index.js").then(({ Client }) => { window.Client = Client; })`);
}

const operator = <T>(path: string, body?: string, type?: string) => answered<T>(coordinator, path, body, type);

/** A population with one job; its id and a token. */
async function created(population: string, network: Case): Promise<{ job: string; token: string }> {
  await operator("populations", JSON.stringify({ name: population }));
  const wanted = { kind: "enrolment", population, label: "the page" };
  const { secret } = await operator<CreatedToken>("tokens", JSON.stringify(wanted));
  const { id } = await operator<Job>("jobs", jobFile(population, network), "application/toml");
  return { job: id, token: secret };
}

/** The same examples for every client. */
function examples({ input }: Case): { shape: number[]; inputs: number[]; labels: number[] } {
  const size = input.reduce((product, length) => product * length, 1);
  const inputs = Array.from({ length: EXAMPLES * size }, (_, at) => Math.sin(at * at * 0.37));
  const labels = Array.from({ length: EXAMPLES }, (_, at) => (at * 7) % CLASSES);
  return { shape: input, inputs, labels };
}

type Ended = Pick<Outcome, "kind" | "work"> | Pick<ClientError, "kind" | "message">;

/** Sessions of one client in the page until one ends otherwise than without work. */
async function session(page: Browser["page"], token: string, network: Case, device: string): Promise<Ended> {
  const options = { server: coordinator.url, token, store: token, device, waitMs: 1_000 };
  return page.evaluate(
    async ({ options, given, sessions }) => {
      const client = new (window as unknown as { Client: new (options: object) => InPage }).Client(options);
      const { shape } = given;
      const [inputs, labels] = [Float32Array.from(given.inputs), Uint32Array.from(given.labels)];
      try {
        for (let left = sessions; left > 0; left--) {
          const { kind, work } = await client.runOnce({ shape, inputs, labels });
          if (kind !== "nothing-to-do") return { kind, work };
        }
        return { kind: "nothing-to-do" as const };
      } catch (error) {
        const { kind, message } = error as ClientError;
        return { kind, message };
      } finally {
        client.close();
      }
    },
    { options, given: examples(network), sessions: SESSIONS_MAX },
  );
}

/** The weights of a version by name, as soon as there is one. */
async function weights(job: string, version: number): Promise<Record<string, Float32Array>> {
  const path = `jobs/${job}/models/${version}`;
  await expect.poll(async () => (await asked(coordinator, path)).status, { timeout: 60_000 }).toBe(200);
  // A safetensors file: the length of a header in JSON, the header, and the values.
  const file = await (await asked(coordinator, path)).arrayBuffer();
  const length = Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.slice(8, 8 + length)));
  const tensors = Object.entries<{ data_offsets: [number, number] }>(header).filter(
    ([, { data_offsets }]) => data_offsets,
  );
  const values = ([begin, end]: [number, number]) => new Float32Array(file.slice(8 + length + begin, 8 + length + end));
  return Object.fromEntries(tensors.map(([name, { data_offsets }]) => [name, values(data_offsets)]));
}

function furthest(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  return a.reduce((most, value, index) => Math.max(most, Math.abs(value - b[index]!)), 0);
}

describe("a round on the GPU", () => {
  for (const [name, network] of Object.entries({ mlp: MLP, cnn: CNN })) {
    it(`ends with the weights of the CPU: ${name}`, async () => {
      const [cpu, gpu] = [await created(`${name}-cpu`, network), await created(`${name}-gpu`, network)];
      const onCpu = await session(browser.page, cpu.token, network, "cpu");
      const onGpu = await session(browser.page, gpu.token, network, "gpu");
      expect(onCpu).toMatchObject({ kind: "contributed", work: { device: "cpu", steps: 20, examples: EXAMPLES } });
      expect(onGpu).toMatchObject({ kind: "contributed", work: { device: "gpu", steps: 20, examples: EXAMPLES } });
      const losses = [onCpu, onGpu].map((ended) => ("work" in ended && ended.work?.loss) || Number.NaN);
      expect(losses[1]).toBeCloseTo(losses[0]!, 4);

      const [first, expected, got] = [await weights(cpu.job, 0), await weights(cpu.job, 1), await weights(gpu.job, 1)];
      expect(await weights(gpu.job, 0)).toEqual(first);
      expect(Object.keys(got)).toEqual(Object.keys(expected));
      for (const [tensor, values] of Object.entries(expected)) {
        expect(furthest(got[tensor]!, values), tensor).toBeLessThan(TOLERANCE);
        const moved = furthest(values, first[tensor]!);
        if (tensor === network.frozen) expect(moved, tensor).toBe(0);
        else expect(moved, tensor).toBeGreaterThan(20 * TOLERANCE);
      }
    });
  }
});

it("software is not chosen by itself, and what has no kernels is refused where a GPU is required", async () => {
  const chosen = await created("chosen", DROPOUT);
  const ended = await session(browser.page, chosen.token, DROPOUT, "auto");
  expect(ended).toMatchObject({ kind: "contributed", work: { device: "cpu" } });
  const required = await created("required", DROPOUT);
  const refused = await session(browser.page, required.token, DROPOUT, "gpu");
  expect(refused).toMatchObject({ kind: "training", message: expect.stringContaining("no kernel for dropout") });
  expect(browser.complaints).toEqual([]);
});

it("without WebGPU a client that requires it says so", async () => {
  const { page, close } = await launch(coordinator.url);
  await load(page);
  const refused = await session(page, "tributary_enrolment_any", MLP, "gpu");
  await close();
  expect(refused).toMatchObject({ kind: "setup", message: expect.stringContaining("there is no GPU") });
});
