// A coordinator that goes away for a while, as the mock can pretend it; restart.test.ts kills a real one.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type Browser, go, launch, open } from "./chromium";
import { type Target, target } from "./target";

let looked: Target;
let browser: Browser | undefined;

beforeAll(async () => {
  looked = await target();
});

afterAll(async () => {
  await browser?.close();
  await looked?.close();
});

it.skipIf(process.env.DASHBOARD_URL)("is waited for, and the page catches up", async () => {
  browser = await launch(looked.base);
  const { page } = browser;
  await open(page, looked.base, looked.token);
  await page.getByText("Live", { exact: true }).waitFor();
  looked.mock!.restart(2_500);
  await page.getByText("Reconnecting", { exact: true }).waitFor();
  expect(await page.locator(".job-card").count()).toBeGreaterThan(0);
  await page.getByText("Live", { exact: true }).waitFor();
  await go(page, "#/system");
  await page.getByRole("heading", { name: "Coordinators" }).waitFor();
});
