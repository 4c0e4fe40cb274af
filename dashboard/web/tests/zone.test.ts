import { afterAll, beforeEach, expect, it, vi } from "vitest";

// Before the formats are made: they take the zone of their first use.
const before = vi.hoisted(() => {
  const zone = process.env.TZ;
  process.env.TZ = "Europe/Berlin";
  return zone;
});

import { absoluteTime, dateTime, timeOfDay, UNKNOWN, zoneName } from "../src/lib/format";
import { isLocalUtc, savedZone, saveZone } from "../src/zone";

const WINTER = Date.UTC(2026, 0, 31, 23, 30, 5);
const SUMMER = Date.UTC(2026, 6, 31, 22, 30, 5);

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});

afterAll(() => {
  vi.unstubAllGlobals();
  if (before === undefined) delete process.env.TZ;
  else process.env.TZ = before;
});

it("times are in ISO 8601 with the zone that holds at their date", () => {
  expect([WINTER, SUMMER].map((at) => absoluteTime(at, "local"))).toEqual([
    "2026-02-01 00:30:05 CET",
    "2026-08-01 00:30:05 CEST",
  ]);
  expect([WINTER, SUMMER].map((at) => absoluteTime(at, "utc"))).toEqual([
    "2026-01-31 23:30:05 UTC",
    "2026-07-31 22:30:05 UTC",
  ]);
  expect([timeOfDay(WINTER, "local"), timeOfDay(WINTER, "utc")]).toEqual(["00:30:05 CET", "23:30:05 UTC"]);
});

it("what is no time says so in both zones", () => {
  for (const zone of ["local", "utc"] as const) {
    expect([Number.NaN, 1e300].map((at) => dateTime(at, zone))).toEqual([UNKNOWN, UNKNOWN]);
    expect(zoneName(Number.NaN, zone)).toBe("");
  }
});

it("the zone is the browser's until UTC is chosen, and the choice is kept", () => {
  expect(savedZone()).toBe("local");
  saveZone("utc");
  expect(savedZone()).toBe("utc");
  saveZone("local");
  expect(savedZone()).toBe("local");
  localStorage.setItem("tributary.zone", "mars");
  expect(savedZone()).toBe("local");
});

it("there is nothing to choose where the browser's zone is UTC all year", () => {
  expect(isLocalUtc()).toBe(false);
  process.env.TZ = "Europe/London";
  expect(isLocalUtc()).toBe(false);
  process.env.TZ = "UTC";
  expect(isLocalUtc()).toBe(true);
  process.env.TZ = "Europe/Berlin";
});
