// Linear scales, round tick values and bins.

export interface Scale {
  (value: number): number;
  domain: readonly [number, number];
}

/** Maps `from` to `to` linearly; a domain without width maps to the middle. */
export function linear(from: readonly [number, number], to: readonly [number, number]): Scale {
  const width = from[1] - from[0];
  const map = (value: number) =>
    width === 0 ? (to[0] + to[1]) / 2 : to[0] + ((value - from[0]) / width) * (to[1] - to[0]);
  return Object.assign(map, { domain: from });
}

/** Smallest and largest, ignoring what is no number; [0, 1] when there is none. */
export function extent(values: Iterable<number | undefined>): [number, number] {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value === undefined || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 1];
}

/** A step of 1, 2 or 5 times a power of ten that cuts `span` into about `wanted` parts. */
export function niceStep(span: number, wanted: number): number {
  if (!(span > 0) || !(wanted > 0)) return 1;
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

/** Steps of time that people read well, in milliseconds. */
const TIME_STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5,
  216e5, 432e5, 864e5, 1728e5, 6048e5,
];

export function niceTimeStep(spanMs: number, wanted: number): number {
  const rough = spanMs / wanted;
  return TIME_STEPS.find((step) => step >= rough) ?? niceStep(spanMs, wanted);
}

/** Multiples of `step` within [low, high]. */
export function ticks(low: number, high: number, step: number): number[] {
  if (!(step > 0) || !(high >= low)) return [];
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.min(last - first + 1, 1000) }, (_, index) => (first + index) * step);
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Counts values in bins of one round width; a value on an edge belongs to the bin above, the largest to the last. */
export function bins(
  values: readonly number[],
  wanted: number,
  step: (span: number, wanted: number) => number = niceStep,
): Bin[] {
  if (values.length === 0) return [];
  const [low, high] = extent(values);
  const width = step(Math.max(high - low, Math.abs(high) * 1e-3, 1e-9), wanted);
  const first = Math.floor(low / width);
  const last = Math.max(first, Math.ceil(high / width) - 1);
  const result = Array.from({ length: last - first + 1 }, (_, index) => ({
    from: (first + index) * width,
    to: (first + index + 1) * width,
    count: 0,
  }));
  for (const value of values) {
    const bin = result[Math.min(Math.floor(value / width) - first, result.length - 1)];
    if (bin) bin.count += 1;
  }
  return result;
}

/** The value below which a share of the sorted values lies (nearest rank). */
export function quantile(sorted: readonly number[], share: number): number | undefined {
  if (sorted.length === 0) return undefined;
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}

/** The middle of sorted values; of an even number the mean of the two in the middle. */
export function median(sorted: readonly number[]): number | undefined {
  if (sorted.length === 0) return undefined;
  const upper = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[upper] : (sorted[upper - 1]! + sorted[upper]!) / 2;
}

/** 1, 2 and 5 times the powers of ten within [low, high]; round steps where that would be fewer than three. */
export function logTicks(low: number, high: number): number[] {
  if (!(low > 0) || !(high >= low)) return [];
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const lead of [1, 2, 5]) {
      const tick = lead * 10 ** power;
      if (tick >= low && tick <= high) found.push(tick);
    }
  return found.length >= 3 ? found : ticks(low, high, niceStep(high - low, 4));
}
