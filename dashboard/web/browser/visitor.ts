// A visitor of the page /join: opens it in a tab, draws digits and takes part.

import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

/** Digits as strokes in a square of 1. */
const DIGITS: Record<number, [number, number][][]> = {
  0: [Array.from({ length: 9 }, (_, at) => [0.5 + 0.2 * Math.sin(at / 1.27), 0.5 - 0.35 * Math.cos(at / 1.27)])],
  1: [
    [
      [0.4, 0.25],
      [0.52, 0.15],
      [0.52, 0.85],
    ],
  ],
  4: [
    [
      [0.45, 0.15],
      [0.25, 0.6],
      [0.75, 0.6],
    ],
    [
      [0.6, 0.4],
      [0.6, 0.85],
    ],
  ],
  7: [
    [
      [0.25, 0.2],
      [0.7, 0.2],
      [0.45, 0.85],
    ],
  ],
};

async function draw(page: Page, digit: number): Promise<void> {
  const box = (await page.locator("#canvas").boundingBox())!;
  for (const stroke of DIGITS[digit]!) {
    const [first, ...rest] = stroke.map(([x, y]) => [box.x + x * box.width, box.y + y * box.height] as const);
    await page.mouse.move(...first!);
    await page.mouse.down();
    for (const point of rest) await page.mouse.move(...point);
    await page.mouse.up();
  }
  await page
    .locator("#digits")
    .getByRole("button", { name: String(digit), exact: true })
    .click();
}

/** Opens the page of a coordinator with an enrolment token and draws these digits. */
export async function openTab(page: Page, base: string, token: string, digits: number[]): Promise<void> {
  await page.goto(`${base}/join#token=${token}`);
  await page.getByRole("heading", { name: "Draw one digit" }).waitFor();
  expect(await page.getByText("Which project?").isVisible()).toBe(false);
  // The token is a secret: it stays in no history.
  expect(page.url()).toBe(`${base}/join/`);
  for (const digit of digits) await draw(page, digit);
  expect(await page.locator("#drawings li").count()).toBe(digits.length);
}

/** Presses a button: Start or Stop. */
export async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).click();
}

/** The lines that say that this tab contributed to a round. */
export function contributed(page: Page, round: number): Locator {
  return page.locator("#log li.good").filter({ hasText: new RegExp(`Round ${round}: contributed`) });
}
