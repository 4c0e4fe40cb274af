// What the page keeps on the device: token and drawings. The client's own state is in its IndexedDB database.

const TOKEN = "tributary-join-token";
/** Tabs of one browser that may train at a time. */
const PLACES_MAX = 8;
/** How long a reloaded tab waits for its own place, which the page before it may still hold, in milliseconds. */
const OWN_PLACE_MS_MAX = 3_000;

export interface Drawing {
  label: number;
  /** 64 numbers from 0 to 16. */
  ink: number[];
}

/** The token in the address, which is then removed from it, or the one that was kept. */
export function token(): string | null {
  const given = new URLSearchParams(window.location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", window.location.pathname + window.location.search);
    keepToken(given);
  }
  return given ?? localStorage.getItem(TOKEN);
}

export function isToken(text: string): boolean {
  return /^tributary_enrolment_\S+$/.test(text);
}

export function keepToken(text: string): void {
  localStorage.setItem(TOKEN, text);
}

/** One client's state; no two tabs have the same one at a time. */
export interface Place {
  store: string;
  drawings: () => Drawing[];
  keep: (drawings: readonly Drawing[]) => void;
  /** Removes everything that the page has on the device. The client must be closed. */
  forget: () => Promise<void>;
}

/** Takes a place for as long as the tab is open: after a reload the same one. */
export async function takePlace(): Promise<Place> {
  const own = sessionStorage.getItem(TOKEN);
  const name = (await locked(own)) ?? own ?? `tributary-join-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  sessionStorage.setItem(TOKEN, name);
  const key = `${name}-drawings`;
  return {
    store: name,
    drawings: () => read(localStorage.getItem(key)),
    keep: (drawings) => localStorage.setItem(key, JSON.stringify(drawings)),
    forget: async () => {
      for (const each of [key, TOKEN]) localStorage.removeItem(each);
      sessionStorage.removeItem(TOKEN);
      await new Promise((resolve) => {
        const request = indexedDB.deleteDatabase(name);
        request.onsuccess = request.onerror = request.onblocked = resolve;
      });
    },
  };
}

/** The name of a free place; `null` where a page gets no locks, which is over plain HTTP from another machine. */
async function locked(own: string | null): Promise<string | null> {
  if (!navigator.locks) return null;
  if (own && (await lock(own, { signal: AbortSignal.timeout(OWN_PLACE_MS_MAX) }))) return own;
  for (let place = 1; place <= PLACES_MAX; place++) {
    const name = `tributary-join-${place}`;
    if (await lock(name, { ifAvailable: true })) return name;
  }
  return null;
}

/** Whether the tab has the lock now. It keeps it. */
function lock(name: string, options: LockOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const held = navigator.locks.request(name, options, (lock) => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise(() => {});
    });
    held.catch(() => resolve(false));
  });
}

function read(text: string | null): Drawing[] {
  try {
    return text === null ? [] : (JSON.parse(text) as Drawing[]);
  } catch {
    return [];
  }
}
