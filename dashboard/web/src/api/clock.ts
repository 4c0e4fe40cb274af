// The coordinator's clock, as far as its answers tell: deadlines are its, not the viewer's.

/** An estimate older than this is replaced by a new one even if that is less exact, in milliseconds. */
const ESTIMATE_MS_MAX = 60_000;

export class ServerClock {
  private offsetMs = 0;
  private spreadMs = Number.POSITIVE_INFINITY;
  private observedMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly local: () => number = Date.now) {}

  /** The answer was made between sending and receiving; a short exchange leaves little doubt about when. */
  observe(serverNowMs: number, sentMs: number, receivedMs: number): void {
    const spreadMs = receivedMs - sentMs;
    if (spreadMs > this.spreadMs && receivedMs - this.observedMs < ESTIMATE_MS_MAX) return;
    this.offsetMs = serverNowMs - (sentMs + receivedMs) / 2;
    this.spreadMs = spreadMs;
    this.observedMs = receivedMs;
  }

  /** Whether any answer has told the time. */
  get known(): boolean {
    return this.observedMs > Number.NEGATIVE_INFINITY;
  }

  now(): number {
    return this.local() + this.offsetMs;
  }
}
