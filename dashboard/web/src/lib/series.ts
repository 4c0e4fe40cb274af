// The values of a line: smoothed, and the best of them.

/** Weight of the past in a smoothed curve. */
const SMOOTHING = 0.8;

/** The exponentially weighted mean of each value and those before it; gaps stay gaps. */
export function smoothed(values: readonly (number | null)[]): (number | null)[] {
  let [sum, weight] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    // Divided by the weights so far, so that the curve does not begin at zero.
    [sum, weight] = [SMOOTHING * sum + value, SMOOTHING * weight + 1];
    return sum / weight;
  });
}

/**
 * Where the best value of a column is; undefined with fewer than two values. The first of equal ones,
 * if none is named.
 */
export function bestAt(values: readonly (number | null)[], best: "highest" | "lowest" | number): number | undefined {
  let at: number | undefined;
  let known = 0;
  values.forEach((value, index) => {
    if (value === null) return;
    known += 1;
    if (typeof best === "number") {
      if (index === best) at = index;
      return;
    }
    const other = at === undefined ? undefined : values[at]!;
    if (other === undefined || (best === "highest" ? value > other : value < other)) at = index;
  });
  return known < 2 ? undefined : at;
}
