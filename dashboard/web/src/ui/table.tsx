// Tables with headers, in a frame that scrolls sideways on narrow screens; and their pages.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand right. */
  number?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
  /** Heads its row for screen readers. */
  name?: boolean;
  title?: string;
}

export function Table<T>(props: {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string | number;
  stale?: boolean;
  minRows?: number;
  empty?: ComponentChildren;
}) {
  const look = (column: Column<T>) => `${column.number ? "number" : ""} ${column.wide ? "wide-only" : ""}`.trim();
  return (
    <section class={`table-frame ${props.stale ? "stale" : ""}`} aria-label={props.label} tabIndex={0}>
      <table>
        <caption class="unseen">{props.label}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.head} scope="col" class={look(column)} title={column.title}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.rowKey(row)}>
              {props.columns.map((column) =>
                column.name ? (
                  <th key={column.head} scope="row" class={look(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.head} class={look(column)}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {props.rows.length === 0 && props.empty}
    </section>
  );
}

export interface Paging {
  after: string | undefined;
  /** Number of the page, from 1. */
  page: number;
  first: () => void;
  back: () => void;
  next: (after: string) => void;
}

/** Which page of a list, with the way back. `of` names the list: another one starts at its first page. */
export function usePaging(of: string): Paging {
  const [state, set] = useState<{ of: string; trail: string[] }>({ of, trail: [] });
  const trail = state.of === of ? state.trail : [];
  return {
    after: trail.at(-1),
    page: trail.length + 1,
    first: () => set({ of, trail: [] }),
    back: () => set({ of, trail: trail.slice(0, -1) }),
    next: (after) => set({ of, trail: [...trail, after] }),
  };
}

export function Pager({ paging, next, of }: { paging: Paging; next: string | undefined; of?: string | undefined }) {
  if (paging.page === 1 && next === undefined)
    return of ? (
      <p class="pager">
        <span>{of}</span>
      </p>
    ) : null;
  return (
    <nav class="pager" aria-label="Pages">
      {of && <span>{of}</span>}
      <span class="pager-buttons">
        <button type="button" class="small" disabled={paging.page === 1} onClick={paging.first}>
          First
        </button>
        <button type="button" class="small" disabled={paging.page === 1} onClick={paging.back}>
          Back
        </button>
        <span aria-live="polite">Page {paging.page}</span>
        <button
          type="button"
          class="small"
          disabled={next === undefined}
          onClick={() => next !== undefined && paging.next(next)}
        >
          Next
        </button>
      </span>
    </nav>
  );
}
