// Absolute times name their zone, and the switch in the bar changes all of them between the browser's zone and UTC.

import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { Overview } from "../src/api/types";
import { type Browser, go, launch, open } from "./chromium";
import { type Target, target } from "./target";

/** Five and a half hours before UTC's clock, all year. */
const ZONE = "Asia/Kolkata";

let looked: Target;
let browser: Browser;

beforeAll(async () => {
  looked = await target();
});
afterAll(() => looked?.close());

beforeEach(async () => {
  browser = await launch(looked.base, { zone: ZONE });
});
afterEach(() => browser.close());

async function firstRound(): Promise<{ job: string; openedAtMs: number }> {
  const headers = { authorization: `Bearer ${looked.token}` };
  const overview = (await (await fetch(`${looked.base}/operator/v1/overview`, { headers })).json()) as Overview;
  const { id } = overview.jobs.toSorted((a, b) => b.job.rounds_committed - a.job.rounds_committed)[0]!.job;
  const rounds = await fetch(`${looked.base}/operator/v1/jobs/${id}/rounds?order=asc&limit=1`, { headers });
  const { items } = (await rounds.json()) as { items: { opened_at_ms: number }[] };
  return { job: id, openedAtMs: items[0]!.opened_at_ms };
}

it("times change to UTC and back, in tables, sentences and tips, and the choice outlives a reload", async () => {
  const { page, complaints } = browser;
  const { job, openedAtMs } = await firstRound();
  const text = (shiftMs: number) => new Date(openedAtMs + shiftMs).toISOString().slice(0, 19).replace("T", " ");
  const [utc, local] = [text(0), text(5.5 * 3_600_000)];
  await open(page, looked.base, looked.token, `#/jobs/${job}?tab=rounds&order=asc`);
  const table = page.getByRole("region", { name: "Rounds, table" });
  await table.getByRole("columnheader", { name: "Opened (GMT+5:30)" }).waitFor();
  await table.getByText(local).first().waitFor();

  await page.getByRole("button", { name: /Change to UTC$/ }).click();
  await table.getByRole("columnheader", { name: "Opened (UTC)" }).waitFor();
  await table.getByText(utc).first().waitFor();
  expect(await table.getByText(local).count()).toBe(0);
  expect(await table.locator("time").first().getAttribute("data-tip")).toBe(`${utc} UTC`);

  await page.reload();
  await go(page, `#/jobs/${job}/rounds/1`);
  await page.getByText(`${utc} UTC`).first().waitFor();
  await page.getByRole("button", { name: /Change to the zone of this browser$/ }).click();
  await page.getByText(`${local} GMT+5:30`).first().waitFor();
  expect(complaints).toEqual([]);
});

it("a browser in UTC has no switch", async () => {
  await browser.close();
  browser = await launch(looked.base, { zone: "UTC" });
  const { page } = browser;
  await open(page, looked.base, looked.token, "#/system");
  await page.getByRole("columnheader", { name: "When (UTC)" }).waitFor();
  expect(await page.getByRole("button", { name: /: times are in/ }).count()).toBe(0);
});
