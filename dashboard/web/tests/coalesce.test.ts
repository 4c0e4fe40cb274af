import { describe, expect, it } from "vitest";
import { Coalescer, REST_MS_MAX, type Timers } from "../src/api/coalesce";

/** A clock that is moved by hand. */
class HandClock implements Timers {
  private at = 1000;
  private waiting: { due: number; run: () => void }[] = [];

  now(): number {
    return this.at;
  }

  after(ms: number, run: () => void): () => void {
    const entry = { due: this.at + ms, run };
    this.waiting.push(entry);
    return () => (this.waiting = this.waiting.filter((other) => other !== entry));
  }

  async forward(ms: number): Promise<void> {
    this.at += ms;
    const due = this.waiting.filter((entry) => entry.due <= this.at);
    this.waiting = this.waiting.filter((entry) => entry.due > this.at);
    for (const entry of due) entry.run();
    await settle();
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
}

describe("a coalescer", () => {
  it("runs at once, then at most every half second, and once for many requests", async () => {
    const clock = new HandClock();
    let runs = 0;
    const run = async () => {
      runs += 1;
    };
    const coalescer = new Coalescer(run, clock, 500);
    coalescer.ask();
    await settle();
    expect(runs).toBe(1);
    for (let burst = 0; burst < 100; burst += 1) coalescer.ask();
    await clock.forward(499);
    expect(runs).toBe(1);
    await clock.forward(1);
    expect(runs).toBe(2);
    await clock.forward(5000);
    expect(runs).toBe(2);
  });

  it("forgets nothing that is asked during a run, and rests after a long one", async () => {
    const clock = new HandClock();
    let runs = 0;
    let finish = () => {};
    const coalescer = new Coalescer(
      () => {
        runs += 1;
        return new Promise<void>((resolve) => (finish = resolve));
      },
      clock,
      500,
    );
    coalescer.ask();
    coalescer.ask();
    await clock.forward(10_000);
    expect(runs).toBe(1);
    finish();
    await settle();
    expect(runs).toBe(1);
    // Three times as long would be half a minute; the rest has a limit.
    await clock.forward(REST_MS_MAX - 1);
    expect(runs).toBe(1);
    await clock.forward(1);
    expect(runs).toBe(2);
  });

  it("does nothing once it is closed", async () => {
    const clock = new HandClock();
    let runs = 0;
    const run = async () => {
      runs += 1;
    };
    const coalescer = new Coalescer(run, clock, 500);
    coalescer.ask();
    await settle();
    coalescer.ask();
    coalescer.close();
    await clock.forward(1000);
    coalescer.ask();
    expect(runs).toBe(1);
  });
});
