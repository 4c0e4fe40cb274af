import { describe, expect, it } from "vitest";
import {
  axisReals,
  briefly,
  bytes,
  clock,
  compact,
  count,
  duration,
  isoTime,
  ofWhom,
  parseDuration,
  percent,
  plural,
  presence,
  real,
  relative,
  short,
  shortId,
  spreadOf,
  sureness,
  UNKNOWN,
  words,
} from "../src/lib/format";

describe("figures", () => {
  it("are short and keep three digits", () => {
    expect([0, 0.000012, 0.00705, 0.0701, 0.5, 1, 12.345, 123.45, 12345, 2e7].map(real)).toEqual([
      "0",
      "1.20e-5",
      "0.00705",
      "0.0701",
      "0.500",
      "1.000",
      "12.35",
      "123.5",
      "12,345",
      "2.00e+7",
    ]);
    expect([999, 9999, 10_000, 1_663_370, 5e9].map(compact)).toEqual(["999", "9,999", "10.0 k", "1.66 M", "5.00 G"]);
    expect([0, 999, 1000, 999_400, 999_600, 1_700_000].map(bytes)).toEqual([
      "0 B",
      "999 B",
      "1.00 kB",
      "999 kB",
      "1.00 MB",
      "1.70 MB",
    ]);
    expect([0.4, 12.44, 1234].map(short)).toEqual(["0.4", "12.4", "1,234"]);
    expect(percent(0.9134)).toBe("91.3 %");
  });

  it("that are unknown say so", () => {
    for (const format of [count, compact, bytes, percent, real, short, duration]) {
      expect(format(undefined)).toBe(UNKNOWN);
      expect(format(Number.NaN)).toBe(UNKNOWN);
    }
  });

  it("of an axis have the decimals of their step", () => {
    expect(axisReals([0, 0.5, 1])).toEqual(["0", "0.5", "1.0"]);
    expect(axisReals([60, 62, 64])).toEqual(["60", "62", "64"]);
    expect(axisReals([0.02, 0.04])).toEqual(["0.02", "0.04"]);
  });

  it("agree with their noun", () => {
    expect([0, 1, 2].map((value) => plural(value, "client"))).toEqual(["0 clients", "1 client", "2 clients"]);
    expect(plural(2, "entry", "entries")).toBe("2 entries");
  });
});

describe("durations", () => {
  it("have at most two units", () => {
    const cases: [number, string][] = [
      [0, "0 ms"],
      [840, "840 ms"],
      [999.6, "1.0 s"],
      [8_400, "8.4 s"],
      [59_400, "59 s"],
      [59_600, "1 min"],
      [200_000, "3 min 20 s"],
      [3_599_600, "1 h"],
      [7_500_000, "2 h 5 min"],
      [86_399_000, "1 d"],
      [3 * 86_400_000 + 4 * 3_600_000, "3 d 4 h"],
      [-5000, "−5.0 s"],
    ];
    for (const [ms, text] of cases) expect(duration(ms), String(ms)).toBe(text);
  });

  it("read back from what people type", () => {
    const cases: [string, number | undefined][] = [
      ["600000", 600_000],
      ["90 s", 90_000],
      ["10min", 600_000],
      ["1.5h", 5_400_000],
      ["1 h 30 min", 5_400_000],
      ["250 MS", 250],
      ["", undefined],
      ["soon", undefined],
      ["3 weeks", undefined],
      ["-4 s", undefined],
      ["4 s later", undefined],
    ];
    for (const [text, ms] of cases) expect(parseDuration(text), text).toBe(ms);
  });

  it("survive being shown and read again when they are round", () => {
    for (const ms of [250, 5_000, 60_000, 90_000, 600_000, 5_400_000, 86_400_000])
      expect(parseDuration(duration(ms))).toBe(ms);
  });

  it("count down without a jump in width", () => {
    expect([-500, 0, 1, 59_001, 247_000, 3_753_000].map(clock)).toEqual([
      "0:00",
      "0:00",
      "0:01",
      "1:00",
      "4:07",
      "1:02:33",
    ]);
  });
});

describe("times", () => {
  it("are told by one unit, past and future", () => {
    const now = 1_800_000_000_000;
    const cases: [number, string][] = [
      [0, "just now"],
      [12_000, "12 s ago"],
      [200_000, "3 min ago"],
      [47 * 3_600_000, "47 h ago"],
      [72 * 3_600_000, "3 d ago"],
      [-7_300_000, "in 2 h"],
      [-1000, "now"],
    ];
    for (const [ago, text] of cases) expect(relative(now - ago, now), String(ago)).toBe(text);
  });

  it("that are none have no date", () => {
    expect(isoTime(Number.NaN)).toBe("");
    expect(isoTime(0)).toBe("1970-01-01T00:00:00.000Z");
  });
});

describe("names", () => {
  it("of the API are words, and ids keep their recognisable beginning", () => {
    expect(words("too_few_reports")).toBe("too few reports");
    expect(words("job.round_policy")).toBe("job round policy");
    expect(words("an element of w_1 is above 3.5")).toBe("an element of w_1 is above 3.5");
    expect(shortId("job_3f9a2c00112233445566778899aabbcc")).toBe("job_3f9a2c…");
    expect(shortId("first")).toBe("first");
  });
});

describe("what an accuracy was measured on", () => {
  const on = { examples: 19, clients: 1, low: 0.8318, high: 1 };

  it("is its examples and an interval that contains the true one", () => {
    expect(sureness(on)).toBe("19 examples, 83 to 100 %");
    expect(sureness({ ...on, examples: 50_000, low: 0.94805, high: 0.95187 })).toBe("50,000 examples, 94.8 to 95.2 %");
    expect(sureness({ ...on, low: 0.83 })).toBe("19 examples, 83 to 100 %");
    expect([sureness(undefined), briefly(undefined)]).toEqual([undefined, undefined]);
    expect(briefly(on)).toBe("n 19, 83 to 100 %");
  });

  it("says how far the clients lie apart, where there are several", () => {
    expect(spreadOf(on)).toBeUndefined();
    const spread = { ...on, clients: 14, worst: 0.52, p10: 0.71 };
    expect(spreadOf(spread)).toBe("worst of 14 clients 52.0 %, a tenth at most 71.0 %");
    expect([ofWhom(spread), ofWhom({ ...on, clients: 0 })]).toEqual([
      "19 examples of 14 clients",
      "19 examples of the test set",
    ]);
  });

  it("tells who waits and who works apart", () => {
    expect([presence(14, 5), presence(5, 5), presence(9, 0), presence(0, 0)]).toEqual([
      "9 waiting, 5 working",
      "5 working",
      "9 waiting",
      "",
    ]);
  });
});
