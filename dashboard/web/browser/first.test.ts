// The first steps on an empty coordinator, on a phone: nothing is wider than the screen.

import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Mock, serve, TOKEN } from "../mock/server";
import { type Browser, launch, open } from "./chromium";

let mock: Mock;
let browser: Browser;

beforeEach(async () => {
  mock = await serve(fileURLToPath(new URL("../dist", import.meta.url)), 0, { empty: true });
  browser = await launch(mock.url, { width: 360, height: 780 });
});
afterEach(async () => {
  await browser.close();
  await mock.close();
});

it("lead from a population to a token with its commands and its QR code", async () => {
  const { page, complaints } = browser;
  const wider = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await open(page, mock.url, TOKEN);
  await page.getByLabel("Name").fill("phones");
  await page.getByRole("button", { name: "Create population" }).click();
  await page.getByRole("heading", { name: "Create a population · done" }).waitFor();
  await page.getByRole("button", { name: "Create enrolment token" }).click();
  await page.getByRole("button", { name: /^Copy: TRIBUTARY_TOKEN=\S+ tributary client run .*--fleet 5/ }).waitFor();
  await page.getByRole("img", { name: "Address and token as a QR code" }).waitFor();
  expect(await wider()).toBeLessThanOrEqual(0);
  await page.getByRole("link", { name: "New job" }).last().click();
  await page.getByRole("heading", { name: "New job" }).waitFor();
  expect(await page.getByLabel("Population").inputValue()).toBe("phones");
  expect(complaints).toEqual([]);
});
