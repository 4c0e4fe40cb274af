// The keys of the page, for whichever search field and table it shows.

import { useEffect } from "preact/hooks";
import { commandOf, type KeyCommand, rowAfter } from "../lib/keys";

/** Elements into which people type. */
const TYPED = "input, textarea, select, [contenteditable]";

/** Listens while the page is shown. */
export function useKeys() {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target, key, ctrlKey, metaKey, altKey, defaultPrevented } = event;
      const typing = target instanceof Element && target.closest(TYPED) !== null;
      const command = commandOf({ key, ctrlKey, metaKey, altKey, defaultPrevented, typing });
      if (command === undefined || document.querySelector("dialog[open]")) return;
      if (obey(command)) event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

/** Moves the focus. Returns false where there is nothing to move it to. */
function obey(command: KeyCommand): boolean {
  if (command === "search") {
    const field = document.querySelector<HTMLInputElement>('main input[type="search"]');
    field?.focus();
    field?.select();
    return field !== null;
  }
  const rows = rowLinks();
  const at = rows.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  const row = rowAfter(command, at, rows.length);
  if (row === undefined) return rows.length > 0;
  rows[row]!.focus();
  return true;
}

/** The links that open the rows of a table: of the one with the focus, else of the first one that has some. */
function rowLinks(): HTMLAnchorElement[] {
  const of = (table: Element) => [...table.querySelectorAll<HTMLAnchorElement>('tbody th[scope="row"] a[href]')];
  const focused = document.activeElement?.closest("main table");
  const lists = (focused ? [focused] : [...document.querySelectorAll("main table")]).map(of);
  return lists.find((links) => links.length > 0) ?? [];
}
