// The values of lines, and names that were mistyped.

import { describe, expect, it } from "vitest";
import { nearest } from "../src/lib/nearest";
import { bestAt, smoothed } from "../src/lib/series";

describe("a smoothed line", () => {
  it("begins at its first value, keeps its gaps, and follows the values slowly", () => {
    expect(smoothed([])).toEqual([]);
    expect(smoothed([4, null, 4])).toEqual([4, null, 4]);
    const [, second] = smoothed([0, 1]);
    // (0.8 * 0 + 1) / (0.8 + 1)
    expect(second).toBeCloseTo(1 / 1.8, 12);
    const risen = smoothed([0, ...Array<number>(40).fill(1)]).at(-1)!;
    expect(risen).toBeGreaterThan(0.999);
    expect(risen).toBeLessThan(1);
  });
});

describe("the best value of a line", () => {
  it("is the first of the highest or of the lowest, and none of fewer than two", () => {
    expect(bestAt([null, 1, 3, null, 3, 2], "highest")).toBe(2);
    expect(bestAt([null, 1, 3, null, 1, 2], "lowest")).toBe(1);
    expect(bestAt([null, 1, 3, null, 3, 2], 4)).toBe(4);
    expect(bestAt([null, 1, 3], 0)).toBeUndefined();
    expect(bestAt([null, 1], "lowest")).toBeUndefined();
    expect(bestAt([], "highest")).toBeUndefined();
  });
});

describe("a mistyped name", () => {
  it("finds the name that is near, and no other", () => {
    const known = ["shop", "devices", "hospitals"];
    expect(nearest("shopp", known)).toBe("shop");
    expect(nearest("shpo", known)).toBe("shop");
    expect(nearest("Device", known)).toBe("devices");
    expect(nearest("x", known)).toBeUndefined();
    expect(nearest("hotel", known)).toBeUndefined();
  });
});
