// Tables, and the pages of long lists.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { zoneName } from "../lib/format";
import { beginsWithLargest, type Sorting, sorted, type Value } from "../lib/sort";
import { useZone } from "./zone";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers are aligned right. */
  number?: boolean;
  /** What a share of losses sorts by first: the largest, as numbers do, without being aligned right. */
  worstFirst?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
  /** The row's header for screen readers. */
  name?: boolean;
  /** The cells are absolute times: the head names their zone. */
  zoned?: boolean;
  /** Explains the head on hover and focus. */
  title?: string;
  /** What the rows are sorted by when the head is pressed. */
  sort?: (row: T) => Value;
  /** The server's word for the same, in a list that it sorts. */
  key?: string;
}

/** The order of a list that the server sorts, and what asks for another one. */
export interface ServerSorting {
  key: string;
  descending: boolean;
  onSort: (key: string, descending: boolean) => void;
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
  /** The order at first, for columns that sort. Without it the rows stay as they come. */
  order?: Sorting;
  /** The server sorts the list, by the columns that have a key. */
  server?: ServerSorting | undefined;
  /** The rows that are shown, once they are sorted: from the first to before the second. */
  slice?: readonly [number, number];
  class?: string;
}) {
  const look = (column: Column<T>) => `${column.number ? "number" : ""} ${column.wide ? "wide-only" : ""}`.trim();
  const [order, setOrder] = useState<Sorting | undefined>(props.order);
  const by = order && props.columns.find((column) => column.head === order.head)?.sort;
  const rows = useMemo(
    () => (order && by ? sorted(props.rows, by, order.descending) : props.rows),
    [props.rows, props.columns, order],
  );
  const frame = useMoreBeyond();
  return (
    <section
      ref={frame}
      class={`table-frame ${props.stale ? "stale" : ""} ${props.class ?? ""}`}
      aria-label={`${props.label}, table`}
      tabIndex={0}
    >
      <table>
        <caption class="unseen">{props.label}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <Head
                key={column.head}
                column={column}
                look={look(column)}
                {...sortingOf(column, props.server, order, setOrder)}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {(props.slice ? rows.slice(...props.slice) : rows).map((row) => (
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

interface HeadSorting {
  /** Whether the rows are in the order of this column, and in which direction. */
  descending: boolean | undefined;
  /** Left out where the column does not sort. */
  onSort: ((descending: boolean) => void) | undefined;
}

/** How the head of a column sorts: on the server, or the rows that are there. */
function sortingOf<T>(
  column: Column<T>,
  server: ServerSorting | undefined,
  order: Sorting | undefined,
  setOrder: (order: Sorting) => void,
): HeadSorting {
  const { head, key } = column;
  if (server)
    return {
      descending: key !== undefined && key === server.key ? server.descending : undefined,
      onSort: key === undefined ? undefined : (descending) => server.onSort(key, descending),
    };
  return {
    descending: order?.head === head ? order.descending : undefined,
    onSort: column.sort && ((descending) => setOrder({ head, descending })),
  };
}

/** Sorts by its column: numbers and shares of losses from the largest, texts from A; then the other way. */
function Head<T>(props: { column: Column<T>; look: string } & HeadSorting) {
  const { column, look, onSort } = props;
  const zone = useZone();
  const head = column.zoned ? `${column.head} (${zoneName(Date.now(), zone)})` : column.head;
  const tip = column.title ? { "data-tip": column.title } : {};
  if (!onSort)
    return (
      <th scope="col" class={look} {...tip}>
        {head}
      </th>
    );
  const now = props.descending;
  const isSorted = now !== undefined;
  const descending = isSorted ? !now : beginsWithLargest(column);
  return (
    <th scope="col" class={look} aria-sort={isSorted ? (now ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort" onClick={() => onSort(descending)} {...tip}>
        {head}
        <svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true">
          {isSorted && <path d={now ? "M0 2h8L4 7z" : "M0 6h8L4 1z"} />}
        </svg>
      </button>
    </th>
  );
}

/** The ref of a frame that fades at the edge beyond which it has more to show. */
function useMoreBeyond() {
  const frame = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = frame.current!;
    const look = () => {
      const left = element.scrollWidth - element.clientWidth - element.scrollLeft;
      element.classList.toggle("more-right", left > 1);
      element.classList.toggle("more-left", element.scrollLeft > 1);
    };
    const resized = new ResizeObserver(look);
    resized.observe(element);
    if (element.firstElementChild) resized.observe(element.firstElementChild);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  return frame;
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
