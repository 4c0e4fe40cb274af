import { describe, expect, it } from "vitest";
import type { Assignment, ClassStats, CurvePoint, Round, Target } from "../src/api/types";
import { sparkPath } from "../src/charts/sparkline";
import { spansOf } from "../src/charts/timeline";
import { closedAtMs, lateMs, reportMs, segments, tookMs, uploadMs } from "../src/lib/assignments";
import { countedText, dropRate, findings, workText } from "../src/lib/bias";
import { cellState, counted, counts, shownState } from "../src/lib/cohort";
import { columns, distinctTargets, describe as inWords, targetWallMs } from "../src/lib/curve";
import { percent } from "../src/lib/format";
import { changes, cohortSize, FIELDS, read, typed } from "../src/lib/policy";
import { funnel, merged, shapeEnd, shapeWords } from "../src/lib/shapes";
import { errorLine, fill, TEMPLATES, withName } from "../src/lib/templates";
import { tokens } from "../src/lib/toml";
import { links, parseHash } from "../src/router";

const round = (more: Partial<Round> = {}): Round => ({
  number: 1,
  task: "train",
  phase: "training",
  base_version: 0,
  seed: 1,
  goal: 2,
  minimum: 1,
  cohort: 3,
  reported: 0,
  rejected: 0,
  failed: 0,
  expired: 0,
  opened_at_ms: 0,
  selected_at_ms: 100,
  deadline_at_ms: 1100,
  weight: 0,
  bytes_up: 0,
  bytes_down: 0,
  ...more,
});
const assignment = (more: Partial<Assignment> = {}): Assignment => ({
  id: "a",
  client: "c",
  client_number: 1,
  state: "assigned",
  assigned_at_ms: 100,
  bytes_up: 0,
  bytes_down: 0,
  ...more,
});

describe("the time line of an assignment", () => {
  it("has download, training, upload and wait, without gaps", () => {
    const parts = segments(
      assignment({ state: "reported", fetched_at_ms: 200, upload_at_ms: 500, ended_at_ms: 600 }),
      round({ closed_at_ms: 900 }),
      5000,
    );
    expect(parts).toEqual([
      { kind: "download", fromMs: 100, toMs: 200 },
      { kind: "train", fromMs: 200, toMs: 500 },
      { kind: "upload", fromMs: 500, toMs: 600 },
      { kind: "wait", fromMs: 600, toMs: 900 },
    ]);
  });

  it("goes on to now while the client works", () => {
    expect(segments(assignment({ fetched_at_ms: 200 }), round(), 700).at(-1)).toEqual({
      kind: "train",
      fromMs: 200,
      toMs: 700,
    });
  });

  it("shows the last part of a straggler and of a failure as lost", () => {
    expect(
      segments(
        assignment({ state: "expired", fetched_at_ms: 200, ended_at_ms: 900 }),
        round({ closed_at_ms: 900 }),
        5000,
      ).map(({ kind }) => kind),
    ).toEqual(["download", "lost"]);
    expect(segments(assignment({ state: "failed", ended_at_ms: 300 }), round(), 5000)).toEqual([
      { kind: "lost", fromMs: 100, toMs: 300 },
    ]);
  });

  it("does not guess where the time of a refused update went", () => {
    expect(segments(assignment({ state: "rejected", ended_at_ms: 300 }), round({ closed_at_ms: 900 }), 5000)).toEqual([
      { kind: "lost", fromMs: 100, toMs: 300 },
    ]);
  });

  it("takes the client's word for its work where the coordinator saw no download", () => {
    const parts = segments(
      assignment({ state: "reported", work_ms: 300, ended_at_ms: 600 }),
      round({ closed_at_ms: 600 }),
      5000,
    );
    expect(parts).toEqual([
      { kind: "download", fromMs: 100, toMs: 300 },
      { kind: "train", fromMs: 300, toMs: 600 },
    ]);
  });
});

describe("how long clients took", () => {
  it("counts reports only", () => {
    expect(reportMs(assignment({ state: "expired", ended_at_ms: 900 }))).toBeUndefined();
    expect(reportMs(assignment({ state: "reported", ended_at_ms: 900 }))).toBe(800);
    expect(uploadMs(assignment({ state: "reported", upload_at_ms: 800, ended_at_ms: 900 }))).toBe(100);
  });
});

describe("the time of a straggler", () => {
  it("is known where it finished, and unknown where it stopped or never came back", () => {
    const expired = { state: "expired", ended_at_ms: 900, late_at_ms: 1_100 } as const;
    expect(lateMs(assignment({ ...expired, straggler: "finished_late" }))).toBe(1_000);
    expect(lateMs(assignment({ state: "expired", ended_at_ms: 900, straggler: "stopped", stopped_at_ms: 950 }))).toBe(
      undefined,
    );
    expect(lateMs(assignment({ state: "expired", ended_at_ms: 900, straggler: "not_back" }))).toBeUndefined();
    expect(lateMs(assignment({ state: "reported", ended_at_ms: 900 }))).toBeUndefined();
  });

  it("belongs to a spare where the round did not need it", () => {
    const late = { state: "expired", straggler: "finished_late" } as const;
    expect(shownState(assignment({ ...late, spare: true }))).toBe("spare");
    expect(shownState(assignment({ ...late, spare: false }))).toBe("expired");
    expect(shownState(assignment({ state: "reported" }))).toBe("reported");
  });
});

describe("the phases of a round", () => {
  it("come from its own times when the coordinator lists none", () => {
    expect(spansOf(round({ phase: "committed", closed_at_ms: 900, ended_at_ms: 950 }))).toEqual([
      { phase: "selecting", began_at_ms: 0, ended_at_ms: 100 },
      { phase: "training", began_at_ms: 100, ended_at_ms: 900 },
      { phase: "aggregating", began_at_ms: 900, ended_at_ms: 950 },
    ]);
    expect(closedAtMs(round(), 700)).toBe(700);
    expect(closedAtMs(round({ phase: "abandoned", ended_at_ms: 800 }), 2000)).toBe(800);
  });
});

describe("a learning curve", () => {
  const point = (number: number, more: Partial<CurvePoint> = {}): CurvePoint => ({
    round: number,
    at_ms: number * 1000,
    wall_ms: number * 1000,
    clients_ms: number * 9000,
    bytes_up: number * 10,
    bytes_down: 0,
    reported: 1,
    cohort: 1,
    abandoned: false,
    ...more,
  });

  it("leaves out what was not measured and rises in x", () => {
    const points = [point(2, { accuracy: 0.5 }), point(1), point(3, { accuracy: 0.7, loss: 1 })];
    expect(columns(points, "clients", ["accuracy"])).toEqual([
      [18_000, 27_000],
      [0.5, 0.7],
    ]);
    expect(columns(points, "round", ["accuracy", "loss"])).toEqual([
      [2, 3],
      [0.5, 0.7],
      [null, 1],
    ]);
  });

  it("is told in a sentence", () => {
    const points = [point(1, { accuracy: 0.5 }), point(2, { accuracy: 0.9 }), point(3, { accuracy: 0.8 })];
    expect(inWords(points, "accuracy", "Accuracy", percent)).toBe(
      "Accuracy from 50.0 % at round 1 to 80.0 % at round 3; best 90.0 % at round 2.",
    );
    expect(inWords([], "loss", "Loss", percent)).toBe("Loss: nothing measured yet.");
  });

  it("knows a date from a time since the beginning", () => {
    const target = { accuracy: 0.9, round: 3, clients_ms: 0, bytes_up: 0 };
    expect(targetWallMs({ ...target, at_ms: 5_000 }, 1_000_000)).toBe(5_000);
    expect(targetWallMs({ ...target, at_ms: 1_005_000 }, 1_000_000)).toBe(5_000);
  });

  it("lists one target per round, the highest, and the job's own", () => {
    const at = (accuracy: number, round: number): Target => ({ accuracy, round, at_ms: 0, clients_ms: 0, bytes_up: 0 });
    const targets = [at(0.5, 1), at(0.6, 1), at(0.65, 2), at(0.7, 2), at(0.8, 3)];
    const listed = (own?: number) => distinctTargets(targets, own).map(({ accuracy }) => accuracy);
    expect(listed()).toEqual([0.6, 0.7, 0.8]);
    expect(listed(0.65)).toEqual([0.6, 0.65, 0.7, 0.8]);
    expect(distinctTargets([], 0.5)).toEqual([]);
  });

  it("needs two points to be drawn small", () => {
    expect(sparkPath([[1, 1]])).toBe("");
    expect(
      sparkPath([
        [1, 1],
        [2, 2],
      ]),
    ).toMatch(/^M2.0 \S+L158.0 \S+$/);
  });
});

describe("session shapes", () => {
  it("are told in words, and end in a state", () => {
    expect(shapeWords("cadtu+")).toBe("checked in, assigned, downloaded, trained, uploading, done");
    expect(shapeWords("ca?")).toBe("checked in, assigned, ?");
    expect(["cadtu+", "cadtu!", "cadx", "cadi", "cadtu.~", "ca"].map(shapeEnd)).toEqual([
      "reported",
      "rejected",
      "failed",
      "failed",
      "expired",
      "assigned",
    ]);
  });

  it("make a funnel that never widens", () => {
    const steps = funnel([
      { shape: "cadtu+", count: 5 },
      { shape: "cad.", count: 2 },
      { shape: "cau", count: 1 },
    ]);
    expect(steps.map(({ count }) => count)).toEqual([8, 8, 8, 6, 6, 5]);
  });

  it("are counted once each", () => {
    expect(
      merged([
        { shape: "ca", count: 1 },
        { shape: "cad", count: 5 },
        { shape: "ca", count: 2 },
      ]),
    ).toEqual([
      { shape: "cad", count: 5 },
      { shape: "ca", count: 3 },
    ]);
  });
});

describe("bias against a class of devices", () => {
  const stats = (
    value: string,
    verdict: NonNullable<ClassStats["verdict"]>,
    more: Partial<ClassStats> = {},
  ): ClassStats => ({
    value,
    verdict,
    clients: 4,
    assigned: 251,
    reported: 200,
    rejected: 0,
    failed: 0,
    expired: 51,
    drop_rate: 0,
    counted_rate: 200 / 251,
    shapes: [],
    ...more,
  });

  it("names the class that never counts, whatever its number of assignments, before one that counts less", () => {
    const never = stats("pi", "shut_out", { assigned: 12, reported: 0, expired: 12, counted_rate: 0 });
    const less = stats("a14", "under", { reported: 100, counted_rate: 100 / 251 });
    const found = findings("platform", [less, stats("x86", "fair"), never]);
    expect(found.map(({ bad }) => bad)).toEqual([true, true]);
    expect(found[0]?.text).toBe(
      "4 clients with platform “pi” were drawn 12 times, and no update of theirs counted: " +
        "the model learns nothing from them.",
    );
    expect(found[1]?.text).toContain("“a14” were drawn 251 times, and 39.8 % of their updates counted");
  });

  it("is denied only where there is enough to compare", () => {
    expect(findings("platform", [stats("a", "fair"), stats("b", "fair")])).toEqual([
      { text: "No class of platform counts noticeably less often than the others.", bad: false },
    ]);
    expect(findings("platform", [stats("a", "fair"), stats("b", "unknown")])).toEqual([]);
    expect(findings("platform", [])).toEqual([]);
  });

  it("says that unfinished work took longer, not nothing", () => {
    const text = (ms: number) => `${ms} ms`;
    expect(workText(700, 1300, text)).toBe("700 ms");
    expect(workText(undefined, 1300, text)).toBe("> 1300 ms");
    expect(workText(undefined, undefined, text)).toBe("–");
    expect(
      countedText(stats("a", "fair", { counted_rate: 0.8, counted_rate_low: 0.75, counted_rate_high: 0.84 })),
    ).toBe("80 % (75 % to 84 %)");
    expect(countedText({ ...stats("b", "unknown"), assigned: 0 })).toBe("never selected");
  });

  it("does not count spares as dropped, and a rejection once", () => {
    expect(dropRate({ reported: 6, expired: 3, spare: 2, failed: 1 })).toBe(0.2);
    expect(dropRate({ reported: 0, expired: 0, failed: 0 })).toBeUndefined();
  });
});

describe("the counters of a cohort", () => {
  const cell = (number: number, state: Assignment["state"]) => ({ number, state });
  const sum = (of: Round) => Object.values(counts(of)).reduce((a, b) => a + b, 0);

  it("add up to the cohort, whichever answer was first", () => {
    // The round says that eleven work; the cells, which came later, that eight of them have reported.
    const early = round({ cohort: 11, assigned: 11, reported: 0 });
    const cells = [...Array(8).keys()].map((number) => cell(number, "reported"));
    const late = counted(early, [...cells, cell(9, "assigned"), cell(10, "assigned"), cell(11, "failed")]);
    expect(counts(late)).toEqual({ assigned: 2, reported: 8, spare: 0, rejected: 0, failed: 1, expired: 0 });
    expect(sum(late)).toBe(11);
    expect(sum(counted(early, []))).toBe(11);
    expect(counted(early, [cell(1, "reported")]).reported, "cells that are not all there do not count").toBe(0);
  });

  it("tell spares from losses", () => {
    const met = round({ phase: "committed", cohort: 13, reported: 10, expired: 3, spare: 3, assigned: 0 });
    expect(counts(met)).toMatchObject({ spare: 3, expired: 0 });
    expect(cellState(cell(1, "expired"), met)).toBe("spare");
    const missed = round({ phase: "committed", cohort: 13, reported: 8, expired: 5, spare: 0, assigned: 0 });
    expect(counts(missed)).toMatchObject({ spare: 0, expired: 5 });
    expect(cellState(cell(1, "expired"), missed)).toBe("expired");
    const told = (spare: boolean) => cellState({ state: "expired", spare }, met);
    expect([told(true), told(false)], "an assignment knows it better than its round").toEqual(["spare", "expired"]);
    expect([sum(met), sum(missed)]).toEqual([13, 13]);
  });
});

describe("a straggler", () => {
  const late = assignment({ state: "expired", straggler: "finished_late", ended_at_ms: 1300, late_at_ms: 8100 });

  it("took its own time, not that of its round", () => {
    expect(tookMs(late)).toBe(8000);
    expect(tookMs(assignment({ state: "expired", straggler: "stopped", ended_at_ms: 1300, stopped_at_ms: 1700 }))).toBe(
      1600,
    );
    expect(tookMs(assignment({ state: "expired", straggler: "not_back", ended_at_ms: 1300 }))).toBeUndefined();
    expect(tookMs(assignment({ state: "reported", ended_at_ms: 1300 }))).toBe(1200);
  });

  it("has a tail behind the close of its round", () => {
    const parts = segments(late, round({ closed_at_ms: 1300 }), 9000);
    expect(parts.at(-1)).toEqual({ kind: "late", fromMs: 1300, toMs: 8100 });
  });

  it("is no proof of finished training unless it finished", () => {
    const steps = funnel([
      { shape: "cadtu+", count: 4 },
      { shape: "cad.s", count: 247 },
    ]);
    expect(steps.find(({ letter }) => letter === "t")?.count).toBe(4);
    expect(shapeWords("cad.s")).toBe("checked in, assigned, downloaded, round closed without it, stopped unfinished");
  });
});

describe("the round policy", () => {
  const policy = {
    updates_goal: 10,
    updates_min: 5,
    over_selection: 1.3,
    available_min: 0,
    selection_timeout_ms: 300_000,
    deadline_ms: 600_123,
    backoff_ms: 1000,
    backoff_max_ms: 600_000,
  };

  it("reads back as it is typed, to the millisecond", () => {
    for (const field of FIELDS) expect(read(field, typed(field, policy))).toEqual({ value: policy[field.key] });
  });

  it("sends only what changed", () => {
    expect(changes(policy, { ...policy, deadline_ms: 5000 })).toEqual({ deadline_ms: 5000 });
  });

  it("refuses what is no number, and counts a cohort as the coordinator does", () => {
    const goal = FIELDS.find(({ key }) => key === "updates_goal")!;
    const deadline = FIELDS.find(({ key }) => key === "deadline_ms")!;
    expect(read(goal, "1.5")).toHaveProperty("error");
    expect(read(deadline, "a while")).toHaveProperty("error");
    expect(cohortSize(10, 1.1)).toBe(11);
    expect(cohortSize(10, 1.3)).toBe(13);
  });
});

describe("job files", () => {
  it("lose nothing when they are coloured", () => {
    for (const { text } of TEMPLATES) {
      const found = tokens(text);
      expect(found.map((token) => token.text).join("")).toBe(text);
      expect(found.some((token) => token.kind === "table" && token.text === "[model]")).toBe(true);
      expect(found.some((token) => token.kind === "comment")).toBe(true);
    }
    const [key] = tokens('deadline_ms = 600_000 # "not a string"').filter(({ kind }) => kind === "key");
    expect(key?.text).toBe("deadline_ms");
    expect(
      tokens('x = "unfinished')
        .map(({ text }) => text)
        .join(""),
    ).toBe('x = "unfinished');
  });

  it("begin with a name that is free and the chosen population", () => {
    const text = fill(TEMPLATES[0]!, "shop", new Set(["first", "first-2"]));
    expect(text).toContain('name = "first-3"');
    expect(text).toContain('population = "shop"');
    expect(withName('name = "a-7"', new Set(["a-7"]))).toBe('name = "a-2"');
  });

  it("point to the line of an error", () => {
    expect(errorLine("not a job file: TOML parse error at line 12, column 3")).toBe(12);
    expect(errorLine("[round] updates_min must be at least 1")).toBeUndefined();
  });
});

describe("addresses of views", () => {
  it("read back", () => {
    expect(parseHash(links.job("job_1", "models"))).toMatchObject({ route: { view: "job", job: "job_1" } });
    expect(parseHash(links.round("job_1", 7, "evaluate")).query.get("task")).toBe("evaluate");
    expect(parseHash(links.round("job_1", 7)).route).toEqual({ view: "round", job: "job_1", round: 7 });
    expect(parseHash(links.newJob()).route).toEqual({ view: "new-job" });
    expect(parseHash(links.client("client_a")).route).toEqual({ view: "client", client: "client_a" });
    for (const hash of ["", "#", "#/"]) expect(parseHash(hash).route).toEqual({ view: "overview" });
  });

  it("that are none lead nowhere", () => {
    for (const hash of [
      "#/nowhere",
      "#/jobs/j/rounds/x",
      "#/jobs/j/rounds/99999999999",
      "#/jobs/%E0%A4%A",
      "#/system/x",
    ]) {
      expect(parseHash(hash).route, hash).toEqual({ view: "unknown" });
    }
  });
});
