// The order of rows: by a value of each, what has none last.

export type Value = string | number | undefined;

export interface Sorting {
  /** The head of the column. */
  head: string;
  descending: boolean;
}

/** The rows in the order of their values; rows of equal value keep their order. */
export function sorted<T>(rows: readonly T[], by: (row: T) => Value, descending: boolean): T[] {
  const sign = descending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [one, other] = [by(a), by(b)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    if (typeof one === "string" && typeof other === "string") return sign * one.localeCompare(other);
    return sign * (Number(one) - Number(other));
  });
}

/** Whether a column begins with its largest values: numbers do, and shares of which the worst matter. */
export function beginsWithLargest(column: { number?: boolean; worstFirst?: boolean }): boolean {
  return column.number === true || column.worstFirst === true;
}
