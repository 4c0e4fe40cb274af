// How soon the overview is there: `BASE_URL=.. TOKEN=.. npm run paint`, figures in milliseconds as JSON. Not a test.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const LOADS = 10;
const { BASE_URL: base, TOKEN: token, CHROMIUM: chosen } = process.env;
if (!base || !token) throw new Error("BASE_URL and TOKEN name a coordinator and its operator token");
const executablePath = chosen ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const loads = [];
for (let load = 0; load < LOADS; load += 1) {
  // A new context has an empty cache.
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const look = () =>
      document.querySelector(".job-name")
        ? requestAnimationFrame(() => setTimeout(() => (window.jobsShownMs = performance.now())))
        : requestAnimationFrame(look);
    look();
  });
  await page.goto(`${base.replace(/\/$/, "")}/#token=${token}`);
  await page.waitForFunction(() => window.jobsShownMs !== undefined);
  const of = await page.evaluate(() => {
    const paint = (name) => performance.getEntriesByName(name)[0]?.startTime;
    const overview = performance.getEntriesByType("resource").find(({ name }) => name.endsWith("/overview"));
    return {
      first_paint_ms: paint("first-paint"),
      first_contentful_paint_ms: paint("first-contentful-paint"),
      overview_request_ms: overview?.duration,
      jobs_shown_ms: window.jobsShownMs,
    };
  });
  loads.push(of);
  await context.close();
}
await browser.close();
const spread = (name) => {
  const sorted = loads.map((load) => load[name]).sort((a, b) => a - b);
  return { median: Math.round(sorted[LOADS / 2]), most: Math.round(sorted.at(-1)) };
};
console.log(JSON.stringify(Object.fromEntries(Object.keys(loads[0]).map((name) => [name, spread(name)]))));
