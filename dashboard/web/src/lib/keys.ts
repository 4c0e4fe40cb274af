// What the keys of the page do: `/` goes to the search, `j` and `k` go through the rows of a table.

export type KeyCommand = "search" | "next" | "previous";

const COMMANDS: Readonly<Record<string, KeyCommand>> = { "/": "search", j: "next", k: "previous" };

/** Says what the keys do, for the search fields. */
export const KEYS_HELP = "Keys: / comes here, j and k go to the next and the previous row, Enter opens it";

/** What a key asks for; undefined while somebody types, or for the browser's own combinations. */
export function commandOf(event: {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  defaultPrevented: boolean;
  typing: boolean;
}): KeyCommand | undefined {
  const taken = event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.typing;
  return taken ? undefined : COMMANDS[event.key];
}

/** The row to go to of `count`, from the one at `at` (-1: from none), or undefined at an end. */
export function rowAfter(command: "next" | "previous", at: number, count: number): number | undefined {
  const row = command === "next" ? at + 1 : at - 1;
  return row >= 0 && row < count ? row : undefined;
}
