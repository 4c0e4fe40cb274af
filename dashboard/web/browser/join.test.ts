// The page /join in two tabs: both contribute to one round, and a reloaded tab continues as the same client.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client, CreatedToken, Job, Page as Listed, Round } from "../src/api/types";
import { type Browser, launch } from "./chromium";
import { answered, type Coordinator, start } from "./coordinator";
import { contributed, openTab, press } from "./visitor";

const POPULATION = "visitors";
/** A round takes two clients: one tab alone trains nothing. */
const JOB = `name = "digits"
population = "${POPULATION}"
seed = 7

[model]
input = [64]
layers = [
  { kind = "linear", out_features = 32 },
  { kind = "relu" },
  { kind = "linear", out_features = 10 },
]

[training]
epochs = 5
batch_size = 4
optimizer = { kind = "sgd", learning_rate = 0.1 }

[round]
updates_goal = 2
updates_min = 2
over_selection = 1.0

[download]
delta = true
`;

let folder: string;
let coordinator: Coordinator;
let browser: Browser;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tributary-join-"));
  const settings = ["serve", "--listen", "127.0.0.1:0", "--join", "--database", join(folder, "tributary.db")];
  coordinator = await start(settings, () => true, folder);
});

afterAll(async () => {
  await browser?.close();
  await coordinator?.kill();
  rmSync(folder, { recursive: true, force: true });
});

const operator = <T>(path: string, body?: string, type?: string) => answered<T>(coordinator, path, body, type);

it("two tabs contribute to the same rounds, and a reloaded one goes on as the same client", async () => {
  await operator("populations", JSON.stringify({ name: POPULATION }));
  const asked = { kind: "enrolment", population: POPULATION, label: "the page" };
  const { secret } = await operator<CreatedToken>("tokens", JSON.stringify(asked));
  const job = await operator<Job>("jobs", JOB, "application/toml");

  browser = await launch(coordinator.url, { width: 390, height: 844 });
  const { context, page: first, complaints } = browser;
  await openTab(first, coordinator.url, secret, [0, 1, 7, 4, 1, 7]);
  // Chromium hands a pointer's events to a tab in the background once a second.
  const second = await context.newPage();
  await openTab(second, coordinator.url, secret, [4, 0, 1]);
  for (const page of [first, second]) await press(page, "Start");
  for (const page of [first, second]) await contributed(page, 1).waitFor();
  await expect(contributed(first, 1).textContent()).resolves.toMatch(/6 drawings, loss \d\.\d+, .* sent/);

  const clients = await operator<Listed<Client>>(`clients?population=${POPULATION}`);
  expect(clients.items.map(({ examples }) => examples).sort()).toEqual([3, 6]);

  await first.bringToFront();
  await first.reload();
  await first.getByRole("heading", { name: "Draw one digit" }).waitFor();
  expect(await first.locator("#drawings li").count()).toBe(6);
  await press(first, "Start");
  await first.locator("#log li.good").first().waitFor();
  expect(await first.locator("#log li.good").first().textContent()).toMatch(/Round \d+: contributed/);
  // No third client: the tab is who it was.
  expect((await operator<Listed<Client>>(`clients?population=${POPULATION}`)).items).toHaveLength(2);

  if (process.env.SCREENSHOTS) {
    await first.screenshot({ path: join(process.env.SCREENSHOTS, "join-light.png"), fullPage: true });
    await first.emulateMedia({ colorScheme: "dark" });
    await first.screenshot({ path: join(process.env.SCREENSHOTS, "join-dark.png"), fullPage: true });
  }
  for (const page of [first, second]) await press(page, "Stop");
  // Tabs added model deltas to what they had.
  const { items } = await operator<Listed<Round>>(`jobs/${job.id}/rounds`);
  expect(items.some(({ bytes_down = 0, raw_bytes_down = 0 }) => bytes_down < raw_bytes_down)).toBe(true);
  expect(complaints).toEqual([]);
});

it("its files allow nothing from elsewhere, and only the worker may compile WebAssembly", async () => {
  const policy = async (path: string) => {
    const response = await fetch(`${coordinator.url}/join/${path}`);
    expect(response.status, path).toBe(200);
    return response.headers.get("content-security-policy");
  };
  expect(await policy("")).toMatch(/^default-src 'self';/);
  expect(await policy("")).not.toContain("wasm");
  expect(await policy("tributary/worker.js")).toContain("script-src 'self' 'wasm-unsafe-eval'");
});
