// A coordinator that is killed and started again on its database and port: the page waits for it, and catches up.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Job } from "../src/api/types";
import { fill, TEMPLATES } from "../src/lib/templates";
import { type Browser, launch, open } from "./chromium";
import { answered, type Coordinator, start } from "./coordinator";

const POPULATION = "shop";

let folder: string;
let coordinator: Coordinator;
let browser: Browser | undefined;

const serve = (listen: string) =>
  start(["serve", "--listen", listen, "--database", join(folder, "tributary.db")], () => true, folder);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tributary-restart-"));
  coordinator = await serve("127.0.0.1:0");
});

afterAll(async () => {
  await browser?.close();
  await coordinator?.kill();
  rmSync(folder, { recursive: true, force: true });
});

it("a killed coordinator is waited for, and what happened meanwhile is shown without a reload", async () => {
  const { url } = coordinator;
  const token = coordinator.started.operator_token!;
  // After the restart its address and its token are the same.
  const first = coordinator;
  const post = <T>(path: string, body: string, type?: string) => answered<T>(first, path, body, type);
  await post("populations", JSON.stringify({ name: POPULATION }));
  const job = await post<Job>("jobs", fill(TEMPLATES[0]!, POPULATION, new Set()), "application/toml");

  browser = await launch(url);
  const { page, complaints, context } = browser;
  await open(page, url, token, `#/jobs/${job.id}`);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await page.evaluate(() => Object.assign(window, { sameDocument: true }));

  await coordinator.kill();
  await page.getByText("Reconnecting", { exact: true }).waitFor();
  await page.getByRole("heading", { name: job.file.name, exact: true }).waitFor();
  // Cut off, so that the page is not there when it happens and learns of it afterwards.
  await context.setOffline(true);
  coordinator = await serve(new URL(url).host);
  expect(coordinator.url).toBe(url);
  await post(`jobs/${job.id}/pause`, "");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await context.setOffline(false);
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  expect(await page.evaluate(() => "sameDocument" in window)).toBe(true);
  // That it was away is what the browser itself complains of, and nothing else.
  expect(
    complaints.filter((complaint) => !/ERR_(CONNECTION|INTERNET|INCOMPLETE|EMPTY|NETWORK|SOCKET)/.test(complaint)),
  ).toEqual([]);
});
