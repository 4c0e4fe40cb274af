// The operator token: where it is stored, and how it is read from the address; and the mark of a session.

const KEY = "tributary.token";
/** The session itself is a cookie that scripts cannot read. */
const SESSION_KEY = "tributary.session";

export interface Stores {
  session: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  local: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

/** The token in a fragment `#token=..`, and the fragment without it. */
export function tokenInHash(hash: string): { token: string; rest: string } | undefined {
  const found = /[#&]token=([^&]+)/.exec(hash);
  if (!found?.[1]) return undefined;
  const rest = hash.replace(found[0], "").replace(/^[#&]+/, "");
  return { token: decodeURIComponent(found[1]), rest: rest ? `#${rest}` : "#/" };
}

export function savedToken(stores: Stores): string | undefined {
  return stores.session.getItem(KEY) ?? stores.local.getItem(KEY) ?? undefined;
}

/** Keeps the token for this tab, or for this device when asked to remember it. */
export function saveToken(stores: Stores, token: string, remember: boolean): void {
  stores.session.setItem(KEY, token);
  if (remember) stores.local.setItem(KEY, token);
}

export function forgetToken(stores: Stores): void {
  stores.session.removeItem(KEY);
  stores.local.removeItem(KEY);
}

/** Whether this browser may have a session: without the mark the page asks for none. */
export function hasSession(stores: Stores): boolean {
  return stores.local.getItem(SESSION_KEY) !== null;
}

export function markSession(stores: Stores, signedIn: boolean): void {
  if (signedIn) stores.local.setItem(SESSION_KEY, "1");
  else stores.local.removeItem(SESSION_KEY);
}

/** Whether a text has the form of an operator token: other secrets are refused before they are sent. */
export function looksLikeOperatorToken(text: string): boolean {
  return /^tributary_operator_\S+$/.test(text.trim());
}
