// What a person does in the page: watches a round, pauses and resumes, changes a policy, creates a job, downloads a model.

import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Job, JobOverview, Overview } from "../src/api/types";
import { go, launch, open, type Browser } from "./chromium";
import { target, type Target } from "./target";

/** A round of a live job ends within this time, in milliseconds. */
const ROUND_MS_MAX = 90_000;

let looked: Target;
let browser: Browser;

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${looked.base}/operator/v1/${path}`, { headers: { authorization: `Bearer ${looked.token}` } });
  expect(response.status, path).toBe(200);
  return (await response.json()) as T;
}

/** The running job whose rounds are the quickest. */
async function liveJob(): Promise<JobOverview> {
  const { jobs } = await get<Overview>("overview");
  const running = jobs.filter(({ job }) => job.state === "running");
  const length = ({ last_round: last }: JobOverview) => (last?.ended_at_ms === undefined ? Number.MAX_VALUE : last.ended_at_ms - last.opened_at_ms);
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

describe("a live job", () => {
  it("advances to the next round on screen without a reload", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.evaluate(() => Object.assign(window, { sameDocument: true }));
    const card = page.locator(".job-card", { has: page.getByRole("heading", { name: job.name, exact: true }) });
    const number = async () => Number((await card.locator(".live-name").allTextContents()).find((text) => text.startsWith("Round"))?.replace(/\D/g, "") ?? 0);
    const before = Math.max(await number(), job.rounds_opened);
    await expect.poll(number, { timeout: ROUND_MS_MAX }).toBeGreaterThan(before);
    expect(await page.evaluate(() => "sameDocument" in window)).toBe(true);
    expect(complaints).toEqual([]);
  });

  it("is paused and resumed with a confirmation each", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token, `#/jobs/${job.id}`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect((await get<Job>(`jobs/${job.id}`)).state).toBe("running");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    expect((await get<Job>(`jobs/${job.id}`)).state).toBe("paused");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
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

  it("shows who was lost in a round, with the reason", async () => {
    const { page, complaints } = browser;
    const { jobs } = await get<Overview>("overview");
    const losing = jobs.find(({ last_round: last }) => last && last.rejected + last.failed + last.expired > 0);
    if (!losing) throw new Error("this test needs a round that lost a client");
    await open(page, looked.base, looked.token, `#/jobs/${losing.job.id}/rounds/${losing.last_round!.number}`);
    await page.getByRole("heading", { name: "Not counted" }).waitFor();
    expect(await page.locator(".lost li").count()).toBeGreaterThan(0);
    expect(await page.locator(".gantt-row").count()).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
  });

  it("hands out its newest model as a file", async () => {
    const { page, complaints } = browser;
    const { job } = await liveJob();
    await open(page, looked.base, looked.token, `#/jobs/${job.id}?tab=models`);
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: /^Download version/ }).first().click()]);
    expect(file.suggestedFilename()).toMatch(new RegExp(`^${job.name}-\\d+\\.safetensors$`));
    expect(readFileSync(await file.path()).length).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
  });
});

describe("a new job", () => {
  it("is checked while it is written, and created", async () => {
    const { page, complaints } = browser;
    await open(page, looked.base, looked.token, "#/jobs/new");
    await page.getByText(/^Valid/).waitFor();
    const text = page.getByLabel("Job file as TOML");
    const good = await text.inputValue();
    await text.fill(`${good}\nbroken`);
    await page.getByRole("button", { name: /^Go to line/ }).click();
    expect(await text.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd))).toBe("broken");
    expect(await page.getByRole("button", { name: "Create job", exact: true }).isDisabled()).toBe(true);
    await text.fill(good);
    await page.getByText(/^Valid/).waitFor();
    await page.getByRole("button", { name: "Create job", exact: true }).click();
    await page.getByRole("navigation", { name: "Parts of the job" }).waitFor();
    const id = /#\/jobs\/(job_\w+)/.exec(page.url())?.[1];
    expect((await get<Job>(`jobs/${id}`)).state).toBe("running");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
    await page.getByText("stopped", { exact: true }).first().waitFor();
    // The browser itself complains of the refused text.
    expect(complaints.filter((complaint) => !/status of 4(00|22)/.test(complaint))).toEqual([]);
  });
});

describe("a job that waits for its first model", () => {
  it("takes it in the page and begins", async () => {
    if (!looked.mock) return; // Version 0 must fit the job: whoever runs a real coordinator knows one that does.
    const { page, complaints } = browser;
    const waiting = (await get<Overview>("overview")).jobs.find(({ job }) => job.state === "awaiting_model")!;
    await open(page, looked.base, looked.token, `#/jobs/${waiting.job.id}`);
    await page.getByLabel(/^Version 0/).setInputFiles({ name: "model.safetensors", mimeType: "application/octet-stream", buffer: Buffer.from("weights") });
    await page.getByRole("button", { name: "Pause" }).waitFor();
    expect(complaints).toEqual([]);
  });
});

describe("a coordinator that goes away", () => {
  it("is waited for, and the page catches up", async () => {
    if (!looked.mock) return; // Whoever runs a real coordinator restarts it in a test of their own.
    const { page } = browser;
    await open(page, looked.base, looked.token);
    await page.getByText("Live", { exact: true }).waitFor();
    looked.mock.restart(2_500);
    await page.getByText("Reconnecting", { exact: true }).waitFor();
    expect(await page.locator(".job-card").count()).toBeGreaterThan(0);
    await page.getByText("Live", { exact: true }).waitFor();
    await go(page, "#/system");
    await page.getByRole("heading", { name: "Coordinators" }).waitFor();
  });
});
