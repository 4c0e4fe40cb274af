// Files that need the token: fetched, then handed to the browser's own "save as".

import type { Api } from "../api/http";

export async function download(api: Api, path: string, name: string, query = {}): Promise<void> {
  const response = await api.send(path, { accept: "*/*", query });
  save(await response.blob(), name);
}

export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the address after the click; a minute is plenty.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
