// The keys of the page, and the one slider of a round's page.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Overview, Page, Round } from "../src/api/types";
import { type Browser, launch, open } from "./chromium";
import { type Target, target } from "./target";

let looked: Target;
let browser: Browser;

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${looked.base}/operator/v1/${path}`, {
    headers: { authorization: `Bearer ${looked.token}` },
  });
  expect(response.status, path).toBe(200);
  return (await response.json()) as T;
}

beforeAll(async () => {
  looked = await target();
});
afterAll(() => looked?.close());

beforeEach(async () => {
  browser = await launch(looked.base);
});
afterEach(() => browser.close());

describe("keys", () => {
  it("go to the search and through the rows, and are letters in a field", async () => {
    const { page } = browser;
    await open(page, looked.base, looked.token, "#/clients");
    const links = page.locator('main table tbody th[scope="row"] a');
    await links.nth(1).waitFor();
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("href"));
    const [first, second] = [await links.nth(0).getAttribute("href"), await links.nth(1).getAttribute("href")];
    await page.keyboard.press("j");
    expect(await focused()).toBe(first);
    await page.keyboard.press("j");
    expect(await focused()).toBe(second);
    await page.keyboard.press("k");
    expect(await focused()).toBe(first);
    await page.keyboard.press("/");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("type"))).toBe("search");
    await page.keyboard.type("j/k");
    expect(await page.getByLabel("Search").inputValue()).toBe("j/k");
  });
});

describe("the page of a round", () => {
  it("has one slider of deadlines, whose value the histogram marks", async () => {
    const { page } = browser;
    const { jobs } = await get<Overview>("overview");
    const job = jobs.find(({ job, last_round: last }) => job.state === "running" && last !== undefined)!.job;
    const { items } = await get<Page<Round>>(`jobs/${job.id}/rounds?order=desc&limit=100`);
    const round = items.find(({ phase, reported }) => phase === "committed" && reported > 5)!;
    await open(page, looked.base, looked.token, `#/jobs/${job.id}/rounds/${round.number}`);
    await page.getByText("How long clients took").waitFor();
    await page.getByLabel("Try another deadline").waitFor();
    expect(await page.getByLabel("Try another deadline").count()).toBe(1);
    await page.locator(".marker-other text").waitFor();
    const marked = await page.locator(".marker-other text").textContent();
    await page.getByLabel("Try another deadline").focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(
      (before) => document.querySelector(".marker-other text")?.textContent !== before,
      marked,
    );
    expect(await page.getByRole("columnheader", { name: "Session" }).count()).toBe(0);
  });
});
