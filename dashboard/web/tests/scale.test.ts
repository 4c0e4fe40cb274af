import { describe, expect, it } from "vitest";
import { bins, extent, linear, median, niceStep, niceTimeStep, quantile, ticks } from "../src/lib/scale";

describe("scales", () => {
  it("map ends to ends, and a domain without width to the middle", () => {
    const scale = linear([10, 20], [0, 100]);
    expect([10, 15, 20].map(scale)).toEqual([0, 50, 100]);
    expect(linear([5, 5], [0, 100])(5)).toBe(50);
  });

  it("find smallest and largest among holes", () => {
    expect(extent([3, undefined, -1, Number.NaN])).toEqual([-1, 3]);
    expect(extent([])).toEqual([0, 1]);
  });

  it("step by round numbers", () => {
    expect([1, 7, 0.03, 1234].map((span) => niceStep(span, 5))).toEqual(
      [0.2, 1, 0.005, 200].map((value) => expect.closeTo(value, 10)),
    );
    expect(niceTimeStep(600_000, 6)).toBe(120_000);
    expect(niceTimeStep(90_000, 5)).toBe(30_000);
    expect(niceStep(0, 5)).toBe(1);
  });

  it("tick within the ends, both included", () => {
    expect(ticks(0, 1, 0.25)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(ticks(0.1, 0.9, 0.5)).toEqual([0.5]);
    expect(ticks(3, 1, 1)).toEqual([]);
    expect(ticks(0, 1e12, 1).length).toBeLessThanOrEqual(1000);
  });
});

describe("bins", () => {
  it("hold every value once, whatever the values", () => {
    for (const values of [
      [1],
      [5, 5, 5],
      [0, 1, 2, 3, 100],
      [-3, 0, 3],
      [0],
      Array.from({ length: 1000 }, (_, index) => Math.sin(index) * 1e6),
    ]) {
      const counted = bins(values, 20);
      expect(counted.reduce((sum, bin) => sum + bin.count, 0)).toBe(values.length);
      for (const bin of counted) {
        const inside = values.filter((value) => value >= bin.from && value < bin.to).length;
        expect(bin.count).toBeGreaterThanOrEqual(inside);
      }
      expect(counted.length).toBeLessThan(80);
    }
    expect(bins([], 10)).toEqual([]);
  });

  it("have one round width", () => {
    const counted = bins([0, 10, 20, 30], 10, niceTimeStep);
    expect(new Set(counted.map((bin) => bin.to - bin.from)).size).toBe(1);
    expect(counted[0]!.from).toBe(0);
  });
});

describe("quantiles", () => {
  it("are values that occurred", () => {
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2);
    expect(quantile([1, 2, 3, 4], 0.9)).toBe(4);
    expect(quantile([1], 0)).toBe(1);
    expect(quantile([], 0.5)).toBeUndefined();
  });

  it("have in the middle of an even number the mean of two", () => {
    expect(median([1, 2, 3, 4])).toBe(2.5);
    expect(median([1, 2, 4])).toBe(2);
    expect(median([])).toBeUndefined();
  });
});
