// What a person does with many jobs: finds and compares them, files them, pins a version, deletes what is over.

import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { Job, JobOverview, ModelVersion, Overview, Page } from "../src/api/types";
import { type Browser, launch, open } from "./chromium";
import { type Target, target } from "./target";

let looked: Target;
let browser: Browser;

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers = { authorization: `Bearer ${looked.token}`, "content-type": "application/json" };
  const response = await fetch(`${looked.base}/operator/v1/${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** The job with the most rounds, which runs. */
async function longest(): Promise<JobOverview["job"]> {
  const { jobs } = await call<Overview>("GET", "overview");
  return jobs.toSorted((a, b) => b.job.rounds_committed - a.job.rounds_committed)[0]!.job;
}

/** A job that has ended: one of the mock, or a copy of the live one that is stopped at once. */
async function ended(): Promise<{ id: string; name: string }> {
  if (looked.mock) {
    const { jobs } = await call<Overview>("GET", "overview");
    return jobs.find(({ job }) => job.state === "completed")!.job;
  }
  const { file } = await call<Job>("GET", `jobs/${(await longest()).id}`);
  const name = `${file.name}-copy-${Date.now()}`;
  const training = { ...file.training, batch_size: 7 };
  const created = await call<Job>("POST", "jobs", { job: { ...file, name, training } });
  await call("POST", `jobs/${created.id}/stop`);
  return { id: created.id, name };
}

beforeAll(async () => {
  looked = await target();
});
afterAll(() => looked?.close());

beforeEach(async () => {
  browser = await launch(looked.base);
});
afterEach(() => browser.close());

it("jobs are found, ticked and compared", async () => {
  const { page, complaints } = browser;
  const [live, over] = [await longest(), await ended()];
  await open(page, looked.base, looked.token);
  const row = (name: string) => page.getByRole("row", { name: new RegExp(`Compare ${name}\\b`) });
  await page.getByLabel("Search").fill("no job has this");
  await page.getByText("No job matches").waitFor();
  await page.getByRole("link", { name: "Show all jobs" }).click();
  await page.getByLabel("Search").fill("");
  await page.getByRole("checkbox", { name: `Compare ${live.name}`, exact: true }).check();
  await page.getByRole("checkbox", { name: `Compare ${over.name}`, exact: true }).check();
  expect(await row(over.name).count()).toBe(1);
  await page.getByRole("link", { name: "Compare 2 jobs" }).click();
  await page.getByRole("heading", { name: "Settings that differ" }).waitFor();
  const results = page.getByRole("region", { name: "Results of the jobs" });
  expect(await results.getByRole("columnheader").allTextContents()).toEqual(["", live.name, over.name]);
  expect(await page.locator(".uplot").count()).toBe(2);
  expect(complaints).toEqual([]);
});

it("a job that has ended gets tags and notes, is archived and deleted", async () => {
  const { page, complaints } = browser;
  const { id, name } = await ended();
  await open(page, looked.base, looked.token, `#/jobs/${id}`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tags").fill("first-tag second-tag");
  await dialog.getByLabel("Notes").fill("a note");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("first-tag", { exact: true }).waitFor();
  expect((await call<Job>("GET", `jobs/${id}`)).notes).toBe("a note");
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByRole("button", { name: "Unarchive" }).waitFor();
  const listed = async (query: string) =>
    (await call<Overview>("GET", `overview${query}`)).jobs.some(({ job }) => job.id === id);
  expect([await listed(""), await listed("?archived=true")]).toEqual([false, true]);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  expect(await listed("?archived=true")).toBe(false);
  expect(await page.getByRole("link", { name, exact: true }).count()).toBe(0);
  // The page asks for the job again when its deletion is announced.
  expect(complaints.filter((complaint) => !/status of 404/.test(complaint))).toEqual([]);
});

it("a version is pinned and unpinned", async () => {
  const { page, complaints } = browser;
  const { id } = await longest();
  await open(page, looked.base, looked.token, `#/jobs/${id}?tab=models`);
  const buttons = page.getByRole("button", { name: /^Pin version/, pressed: false });
  // The newest: rounds continue meanwhile, and push the oldest off the page.
  const label = (await buttons.first().getAttribute("aria-label"))!;
  const version = Number(label.replace(/\D/g, ""));
  const pinned = async () =>
    (await call<Page<ModelVersion>>("GET", `jobs/${id}/models?after=${version}&limit=1`)).items[0]!.pinned_at_ms;
  await page.getByRole("button", { name: label, exact: true }).click();
  await page.getByRole("button", { name: label, exact: true, pressed: true }).click();
  await page.getByRole("button", { name: label, exact: true, pressed: false }).waitFor();
  await expect.poll(pinned).toBeUndefined();
  expect(complaints).toEqual([]);
});
