// What a person does in the page: watch a round, pause and resume, change a policy, create a job, download a model.

import { readFileSync } from "node:fs";
import type { Page as BrowserPage } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Job, JobOverview, Overview, Page, Round } from "../src/api/types";
import { type Browser, launch, open } from "./chromium";
import { type Target, target } from "./target";

/** A round of a live job ends within this time, in milliseconds. */
const ROUND_MS_MAX = 90_000;

let looked: Target;
let browser: Browser;

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${looked.base}/operator/v1/${path}`, {
    headers: { authorization: `Bearer ${looked.token}` },
  });
  expect(response.status, path).toBe(200);
  return (await response.json()) as T;
}

async function post<T>(path: string, body?: unknown): Promise<T> {
  const headers = { authorization: `Bearer ${looked.token}`, "content-type": "application/json" };
  const response = await fetch(`${looked.base}/operator/v1/${path}`, {
    method: "POST",
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** The running job whose rounds are the quickest. */
async function liveJob(): Promise<JobOverview> {
  const { jobs } = await get<Overview>("overview");
  const running = jobs.filter(({ job }) => job.state === "running");
  const length = ({ last_round: last }: JobOverview) =>
    last?.ended_at_ms === undefined ? Number.MAX_VALUE : last.ended_at_ms - last.opened_at_ms;
  const quickest = running.toSorted((a, b) => length(a) - length(b))[0];
  if (!quickest) throw new Error("these tests need a running job");
  return quickest;
}

beforeAll(async () => {
  looked = await target();
});
afterAll(() => looked?.close());

beforeEach(async () => {
  browser = await launch(looked.base);
});
afterEach(() => browser.close());

/** The newest ended round that closed without a client. */
async function losingRound(): Promise<{ job: string; round: number }> {
  const { jobs } = await get<Overview>("overview");
  for (const { job } of jobs) {
    const { items } = await get<Page<Round>>(`jobs/${job.id}/rounds?order=desc&limit=100`);
    const losing = items.find(({ expired, ended_at_ms: ended }) => ended !== undefined && expired > 0);
    if (losing) return { job: job.id, round: losing.number };
  }
  throw new Error("this test needs a round that lost a client");
}

describe("signing in", () => {
  it("refuses a wrong token in words, takes the right one, and remembers it only when asked", async () => {
    const { page, complaints } = browser;
    await page.goto(looked.base);
    await page.getByLabel("Operator token").fill("tributary_enrolment_x");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("begins with tributary_operator_").waitFor();
    await page.getByLabel("Operator token").fill("tributary_operator_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("does not know this token").waitFor();
    // The refusal itself is what the browser complains of.
    expect(complaints.splice(0).every((text) => text.includes("401"))).toBe(true);
    await page.getByLabel("Operator token").fill(looked.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await page.evaluate(() => localStorage.getItem("tributary.token"))).toBeNull();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Operator token").waitFor();
    expect(complaints).toEqual([]);
  });

  it("by a link takes the token out of the address bar", async () => {
    const { page, complaints } = browser;
    await open(page, looked.base, looked.token);
    expect(page.url()).toBe(`${looked.base}/#/`);
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(complaints).toEqual([]);
  });
});

describe("a link with a token", () => {
  it("that is pasted into a tab of the page shows its view", async () => {
    const { page, complaints } = browser;
    await open(page, looked.base, looked.token, "#/system");
    await page.evaluate((token) => {
      window.location.hash = `#token=${token}`;
    }, looked.token);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(page.url()).toBe(`${looked.base}/#/`);
    expect(complaints).toEqual([]);
  });

  it("says when its token is unknown here", async () => {
    const { page } = browser;
    await page.goto(`${looked.base}/#token=tributary_operator_unknown`);
    await page.getByText("does not know this token").waitFor();
  });
});

describe("a live job", () => {
  it("advances to the next round on screen without a reload", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.evaluate(() => Object.assign(window, { sameDocument: true }));
    const card = page.locator(".job-card", { has: page.getByRole("heading", { name: job.name, exact: true }) });
    const number = async () =>
      Number(
        (await card.locator(".live-name").allTextContents())
          .find((text) => text.startsWith("Round"))
          ?.replace(/\D/g, "") ?? 0,
      );
    const before = Math.max(await number(), job.rounds_opened);
    await expect.poll(number, { timeout: ROUND_MS_MAX }).toBeGreaterThan(before);
    expect(await page.evaluate(() => "sameDocument" in window)).toBe(true);
    expect(complaints).toEqual([]);
  });

  it("is paused and resumed with a confirmation each", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token, `#/jobs/${job.id}`);
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect((await get<Job>(`jobs/${job.id}`)).state).toBe("running");
    await confirmed(page, "Pause");
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    expect((await get<Job>(`jobs/${job.id}`)).state).toBe("paused");
    await confirmed(page, "Resume");
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    expect((await get<Job>(`jobs/${job.id}`)).state).toBe("running");
    expect(complaints).toEqual([]);
  });

  it("takes another round policy, and shows why one is refused", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    const before = (await get<Job>(`jobs/${job.id}`)).file.round;
    await open(page, looked.base, looked.token, `#/jobs/${job.id}`);
    await page.getByRole("button", { name: "Round policy" }).click();
    const dialog = page.getByRole("dialog");
    const goal = dialog.getByLabel("Minimum");
    await goal.fill(String(before.updates_goal + 1));
    await dialog.getByRole("button", { name: "Change 1 setting" }).click();
    await dialog.getByRole("alert").getByText("updates_min").waitFor();
    expect(complaints.splice(0).every((text) => text.includes("422"))).toBe(true);
    await goal.fill(String(before.updates_min));
    await dialog.getByLabel("Selection timeout").fill("7 min");
    await dialog.getByRole("button", { name: "Change 1 setting" }).click();
    await dialog.waitFor({ state: "detached" });
    if (!looked.mock) expect((await get<Job>(`jobs/${job.id}`)).file.round.selection_timeout_ms).toBe(420_000);
    expect(complaints).toEqual([]);
  });

  it("shows who was lost in a round, with the reason, stragglers among them", async () => {
    const { page, complaints } = browser;
    const { job, round } = await losingRound();
    await open(page, looked.base, looked.token, `#/jobs/${job}/rounds/${round}`);
    await page.getByRole("heading", { name: "Not counted" }).waitFor();
    await page
      .locator(".lost li", { hasText: /lost|spare/i })
      .filter({ hasText: /never came back|finished|stopped/i })
      .first()
      .waitFor();
    expect(await page.locator(".gantt-row").count()).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
  });

  it("hands out its newest model as a file", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token, `#/jobs/${job.id}?tab=models`);
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page
        .getByRole("button", { name: /^Download version/ })
        .first()
        .click(),
    ]);
    expect(file.suggestedFilename()).toMatch(new RegExp(`^${job.name}-v\\d+\\.safetensors$`));
    const content = readFileSync(await file.path());
    expect(parametersOf(content)).toBe(job.parameters);
    // What it is, is in the file: with it, the file alone predicts.
    const header = JSON.parse(content.subarray(8, 8 + Number(content.readBigUInt64LE(0))).toString());
    expect(JSON.parse(header.__metadata__.tributary)).toMatchObject({ job: job.name, loss: "cross_entropy" });
    expect(complaints).toEqual([]);
  });
});

/** Presses a button, and the one of the dialog that asks whether it was meant. */
async function confirmed(page: BrowserPage, action: "Pause" | "Resume" | "Stop"): Promise<void> {
  await page.getByRole("button", { name: action, exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: action, exact: true }).click();
}

/** Numbers in a safetensors file. Its first 8 bytes are the length of the JSON header with each tensor's shape. */
function parametersOf(file: Buffer): number {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...tensors } = JSON.parse(file.subarray(8, 8 + headerBytes).toString()) as Record<
    string,
    { shape: number[] }
  >;
  return Object.values(tensors).reduce(
    (sum, { shape }) => sum + shape.reduce((product, length) => product * length, 1),
    0,
  );
}

describe("a new job", () => {
  it("is checked while it is written, created, paused, resumed and stopped", async () => {
    const { page, complaints } = browser;
    await open(page, looked.base, looked.token, "#/jobs/new");
    await page.getByText(/^Valid/).waitFor();
    const text = page.getByLabel("Job file as TOML");
    const good = await text.inputValue();
    await text.fill(`${good}\nbroken`);
    await page.getByRole("button", { name: /^Go to line/ }).click();
    expect(
      await text.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd)),
    ).toBe("broken");
    expect(await page.getByRole("button", { name: "Create job", exact: true }).isDisabled()).toBe(true);
    await text.fill(good);
    await page.getByText(/^Valid/).waitFor();
    await page.getByRole("button", { name: "Create job", exact: true }).click();
    await page.getByRole("navigation", { name: "Parts of the job" }).waitFor();
    const id = /#\/jobs\/(job_\w+)/.exec(page.url())?.[1];
    const state = async () => (await get<Job>(`jobs/${id}`)).state;
    expect(await state()).toBe("running");
    await confirmed(page, "Pause");
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    expect(await state()).toBe("paused");
    await confirmed(page, "Resume");
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    expect(await state()).toBe("running");
    await confirmed(page, "Stop");
    await page.getByText("stopped", { exact: true }).first().waitFor();
    // The browser itself complains of the refused text.
    expect(complaints.filter((complaint) => !/status of 4(00|22)/.test(complaint))).toEqual([]);
  });

  it("is written from the head of a table", async () => {
    const { page, complaints } = browser;
    await open(page, looked.base, looked.token, "#/jobs/new");
    await page.getByText(/^Valid/).waitFor();
    const buffer = Buffer.from("x,y,where\n1,2,in\n3,NA,out\n");
    await page.getByLabel("CSV file of one client").setInputFiles({ name: "points.csv", mimeType: "text/csv", buffer });
    await page.getByText("2 examples of 3 columns.").waitFor();
    const text = page.getByLabel("Job file as TOML");
    expect(await text.inputValue()).toContain('target = { name = "where", classes = ["in", "out"] }');
    // A score of two inputs for each class.
    if (!looked.mock) await page.getByText("Valid: a model of 6 parameters.").waitFor();
    await page.getByLabel(/^Target/).selectOption("x");
    await page.getByLabel(/^It is/).selectOption("number");
    expect(await text.inputValue()).toContain('loss = "mse"');
    if (!looked.mock) await page.getByText("Valid: a model of 4 parameters.").waitFor();
    expect(complaints).toEqual([]);
  });
});

describe("a job that waits for its first model", () => {
  it("takes it in the page and begins", async () => {
    const { page, complaints } = browser;
    const { id, model } = looked.mock ? await waitingJob() : await newWaitingJob();
    await open(page, looked.base, looked.token, `#/jobs/${id}`);
    await page
      .getByLabel(/^Version 0/)
      .setInputFiles({ name: "model.safetensors", mimeType: "application/octet-stream", buffer: model });
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    expect(complaints).toEqual([]);
    if (!looked.mock) await post(`jobs/${id}/stop`);
  });
});

/** A job of the mock that waits already; it takes any file. */
async function waitingJob(): Promise<{ id: string; model: Buffer }> {
  const waiting = (await get<Overview>("overview")).jobs.find(({ job }) => job.state === "awaiting_model")!;
  return { id: waiting.job.id, model: Buffer.from("weights") };
}

/** A job like the live one that waits for a model, and the live one's newest model, which fits. */
async function newWaitingJob(): Promise<{ id: string; model: Buffer }> {
  const { job: live } = await liveJob();
  const { file, model_version: version } = await get<Job>(`jobs/${live.id}`);
  const created = await post<Job>("jobs", {
    job: { ...file, name: `${file.name}-uploaded-${Date.now()}`, initial_model: "upload" },
  });
  const model = await fetch(`${looked.base}/operator/v1/jobs/${live.id}/models/${version}`, {
    headers: { authorization: `Bearer ${looked.token}` },
  });
  return { id: created.id, model: Buffer.from(await model.arrayBuffer()) };
}
