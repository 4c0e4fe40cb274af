// Did you mean: the known name that is nearest to a mistyped one.

/** A name may differ from a mistyped one by so much of its length. */
const LETTERS_PER_MISTAKE = 3;

/** The nearest of the known names, if it is near enough. */
export function nearest(wanted: string, known: readonly string[]): string | undefined {
  const allowed = Math.ceil(wanted.length / LETTERS_PER_MISTAKE);
  const near = known
    .map((name) => ({ name, distance: distance(wanted.toLowerCase(), name.toLowerCase()) }))
    .filter((entry) => entry.distance <= allowed);
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.name;
}

/** Letters to insert, delete, replace, or swap with the next (optimal string alignment). */
function distance(one: string, other: string): number {
  let [before, row] = [[] as number[], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = row[j - 1]! + Number(one[i - 1] !== other[j - 1]);
      next[j] = Math.min(replaced, row[j]! + 1, next[j - 1]! + 1);
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        next[j] = Math.min(next[j]!, before[j - 2]! + 1);
    }
    [before, row] = [row, next];
  }
  return row[other.length]!;
}
