// The pictures of README and docs, from a demo. Each has its page's headings and labels beside it: where they have
// changed since, the picture is old. `scripts/pictures` makes them again.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import type { Page as Listed, Overview, Round } from "../src/api/types";
import { launch, open } from "./chromium";
import { target } from "./target";

const LABELS = "main h2, main h3, main dt, main th, main legend, nav a";
const images = new URL("../../../docs/images/", import.meta.url);

/** The address of a round that lost clients, which is the page that explains most. */
async function lossy(base: string, token: string): Promise<string> {
  const get = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${base}/operator/v1/${path}`, { headers: { authorization: `Bearer ${token}` } })).json()) as T;
  const { id } = (await get<Overview>("overview")).jobs[0]!.job;
  const rounds = (await get<Listed<Round>>(`jobs/${id}/rounds?limit=100`)).items;
  const lost = rounds.filter(({ phase, expired, spare }) => phase === "committed" && expired > (spare ?? 0));
  return `#/jobs/${id}/rounds/${(lost[0] ?? rounds[0])!.number}`;
}

/** Headings and labels in their order, each once and without numbers. */
async function labels(page: Page): Promise<string> {
  const texts = await page.locator(LABELS).allInnerTexts();
  const words = texts.map((text) =>
    text
      .split("\n")[0]!
      .replace(/[\d.,%]+/g, "")
      .trim(),
  );
  return `${[...new Set(words.filter((text) => text !== ""))].join("\n")}\n`;
}

it("the picture of the README shows the page of a round as it is", async () => {
  const { base, token, close } = await target();
  const { page, close: leave } = await launch(base, { width: 1280, height: 1080 });
  try {
    await open(page, base, token, await lossy(base, token));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const [picture, text] = ["dashboard.png", "dashboard.txt"].map((name) => fileURLToPath(new URL(name, images)));
    const shown = await labels(page);
    if (process.env.PICTURES === "write") {
      await page.screenshot({ path: picture!, animations: "disabled" });
      writeFileSync(text!, shown);
    }
    expect(shown, "scripts/pictures makes the picture again").toEqual(readFileSync(text!, "utf8"));
  } finally {
    await leave();
    await close();
  }
});
