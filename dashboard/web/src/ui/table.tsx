// Tables, and the pages of long lists.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers are aligned right. */
  number?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
  /** The row's header for screen readers. */
  name?: boolean;
  /** Explains the head on hover. */
  title?: string;
}

/** A table in a frame that scrolls sideways on narrow screens. */
export function Table<T>(props: {
  /** Caption for screen readers. */
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string | number;
  /** The rows belong to an earlier query: they are dimmed. */
  stale?: boolean;
  /** Shown below the head when there are no rows. */
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
  /** The `after` of the page's request; undefined on the first page. */
  after: string | undefined;
  /** Number of the page, from 1. */
  page: number;
  first: () => void;
  back: () => void;
  next: (after: string) => void;
}

/** The page of a list that is shown, and the pages before it. `of` names the list: another list starts at page 1. */
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

/** Buttons to the other pages of a list; nothing when all of it is on one page. `next` is that of the page's answer. */
export function Pager({ paging, next }: { paging: Paging; next: string | undefined }) {
  if (paging.page === 1 && next === undefined) return null;
  return (
    <nav class="pager" aria-label="Pages">
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
