// Every view, light, dark and on a phone: a screenshot, no complaint of the browser, no serious finding of axe.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Browser, go, launch, open, settled } from "./chromium";
import { type Target, target } from "./target";
import { type View, views } from "./views";

const folder = process.env.SCREENSHOTS ?? fileURLToPath(new URL("../screenshots", import.meta.url));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const LOOKS = [
  { look: "light", width: 1280, height: 900, dark: false },
  { look: "dark", width: 1280, height: 900, dark: true },
  { look: "phone", width: 360, height: 780, dark: false },
];

let looked: Target;
let all: View[];

beforeAll(async () => {
  looked = await target();
  all = await views(looked.base, looked.token);
  mkdirSync(folder, { recursive: true });
});

afterAll(() => looked?.close());

describe.each(LOOKS)("every view, $look", ({ look, width, height, dark }) => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await launch(looked.base, { width, height, dark });
  });

  afterAll(() => browser?.close());

  it("is drawn without a complaint, fits its width, and has no serious accessibility violation", async () => {
    const { page, complaints } = browser;
    await page.goto(looked.base);
    await page.getByLabel("Operator token").waitFor();
    await shot(page, `sign-in-${look}`);
    const findings = await violations(page, "sign-in");
    await open(page, looked.base, looked.token);
    for (const { name, hash } of all) {
      await go(page, "#/nowhere");
      await go(page, hash);
      await drawn(page);
      await shot(page, `${name}-${look}`);
      findings.push(...(await violations(page, name)));
      const wider = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(wider, `${name} is wider than the screen`).toBeLessThanOrEqual(0);
    }
    expect(findings).toEqual([]);
    expect(complaints).toEqual([]);
  });
});

/** Charts draw a frame after their data; wait for two. */
async function drawn(page: Page): Promise<void> {
  await settled(page);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function shot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, animations: "disabled" });
}

async function violations(page: Page, view: string): Promise<string[]> {
  // Evaluated by the test tool, which the page's content-security policy does not bind.
  const results = (await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`)) as AxeResults;
  const serious = results.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(
    (found) =>
      `${view}: ${found.id}: ${found.nodes
        .slice(0, 3)
        .map((node) => `${node.html.slice(0, 160)} (${node.failureSummary?.split("\n")[1]?.trim()})`)
        .join(" | ")}`,
  );
}
