// Two tabs of the page /join take part in a round of the coordinator at VISITED_URL, with the enrolment token
// VISITED_TOKEN. Before they train, their drawings are sent to VISITORS_INBOX, where the Rust test that runs this file
// computes the expected model from them.

import type { Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { launch } from "./chromium";
import { contributed, openTab, press } from "./visitor";

/** The drawings of each tab, as the page keeps them: the tabs of a browser share their storage. */
function drawings(page: Page): Promise<unknown[]> {
  return page.evaluate(() => {
    const names = Object.keys(localStorage).filter((name) => name.endsWith("-drawings"));
    return names.map((name) => JSON.parse(localStorage.getItem(name)!));
  });
}

it("two tabs contribute to a round with other clients", async () => {
  const { VISITED_URL: url, VISITED_TOKEN: token, VISITORS_INBOX: inbox } = process.env;
  const { context, page: first, close } = await launch(url!, { width: 390, height: 844, trusting: true });
  onTestFinished(close);
  await openTab(first, url!, token!, [0, 1, 7, 4, 1, 7]);
  const second = await context.newPage();
  await openTab(second, url!, token!, [4, 0, 1]);
  for (const page of [first, second]) await press(page, "Start");
  const drawn = await drawings(second);
  expect(drawn).toHaveLength(2);
  await fetch(inbox!, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(drawn),
  });
  for (const page of [first, second]) await contributed(page, 1).waitFor({ timeout: 90_000 });
});
