// The client's entries in an IndexedDB database of their own.

const ENTRIES = "entries";

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class EntryStore {
  #database;
  #last = Promise.resolve();

  constructor(database) {
    this.#database = database;
  }

  /** Opens the database of this name, which is created if necessary. */
  static async open(name) {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(ENTRIES);
    return new EntryStore(await done(opening));
  }

  /** Names and bytes in turn. */
  async entries() {
    const entries = this.#database.transaction(ENTRIES).objectStore(ENTRIES);
    const [names, values] = await Promise.all([done(entries.getAllKeys()), done(entries.getAll())]);
    return names.flatMap((name, index) => [name, values[index]]);
  }

  /** Stores an entry, or removes it. Transactions of one object store are committed in the order of their begin. */
  change(name, bytes) {
    const transaction = this.#database.transaction(ENTRIES, "readwrite", { durability: "strict" });
    const entries = transaction.objectStore(ENTRIES);
    if (bytes === undefined) entries.delete(name);
    else entries.put(bytes, name);
    const committed = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("the browser's database refused a change"));
    });
    this.#last = Promise.all([this.#last, committed]);
    // Whoever waits for it learns of a failure; nobody may be waiting yet.
    this.#last.catch(() => {});
  }

  /** Completes when all changes so far are committed. A failure is told once: the next change is tried again. */
  async stored() {
    const last = this.#last;
    try {
      await last;
    } catch (error) {
      if (this.#last === last) this.#last = Promise.resolve();
      throw error;
    }
  }
}
