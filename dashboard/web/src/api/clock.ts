// An estimate of the coordinator's clock from its answers: deadlines are times of its clock, not of the viewer's.

/** An estimate older than this is replaced even by a less exact one, in milliseconds. */
const ESTIMATE_MS_MAX = 60_000;

export class ServerClock {
  private offsetMs = 0;
  private spreadMs = Number.POSITIVE_INFINITY;
  private observedMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly local: () => number = Date.now) {}

  /** The answer was made between `sentMs` and `receivedMs`: the shorter the exchange, the better the estimate. */
  observe(serverNowMs: number, sentMs: number, receivedMs: number): void {
    const spreadMs = receivedMs - sentMs;
    if (spreadMs > this.spreadMs && receivedMs - this.observedMs < ESTIMATE_MS_MAX) return;
    this.offsetMs = serverNowMs - (sentMs + receivedMs) / 2;
    this.spreadMs = spreadMs;
    this.observedMs = receivedMs;
  }

  now(): number {
    return this.local() + this.offsetMs;
  }
}
