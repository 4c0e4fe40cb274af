// Limits how often a view asks the API. Requests during a look-up cause one more look-up after it.

/** Fewest milliseconds between the starts of two look-ups of one thing. */
export const REFRESH_MS_MIN = 500;

/** A look-up that takes long is repeated less often: it rests this many times as long as it took. */
export const REST_FACTOR = 3;
/** Longest rest, in milliseconds: after one answer that hung, the page must not stay old for long. */
export const REST_MS_MAX = 10_000;

export interface Timers {
  now(): number;
  after(ms: number, run: () => void): () => void;
}

export const browserTimers: Timers = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Runs `work` soon after `ask`, however often it is asked. */
export class Coalescer {
  private startedAt = Number.NEGATIVE_INFINITY;
  private restUntil = Number.NEGATIVE_INFINITY;
  private busy = false;
  private asked = false;
  private cancel: (() => void) | undefined;
  private closed = false;

  constructor(
    private readonly work: () => Promise<void>,
    private readonly timers: Timers = browserTimers,
    private readonly gapMs = REFRESH_MS_MIN,
  ) {}

  ask(): void {
    if (this.closed) return;
    this.asked = true;
    if (this.busy || this.cancel) return;
    const waitMs = Math.max(this.startedAt + this.gapMs, this.restUntil) - this.timers.now();
    if (waitMs <= 0) void this.start();
    else this.cancel = this.timers.after(waitMs, () => void this.start());
  }

  close(): void {
    this.closed = true;
    this.cancel?.();
  }

  private async start(): Promise<void> {
    this.cancel = undefined;
    if (this.closed) return;
    this.asked = false;
    this.busy = true;
    this.startedAt = this.timers.now();
    try {
      await this.work();
    } finally {
      this.busy = false;
      const now = this.timers.now();
      this.restUntil = now + Math.min(REST_MS_MAX, REST_FACTOR * (now - this.startedAt));
      if (this.asked) this.ask();
    }
  }
}
