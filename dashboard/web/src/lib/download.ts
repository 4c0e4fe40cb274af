// Downloads. They need the token, which a link cannot send: they are fetched, then saved by the browser.

import type { Api } from "../api/http";

/** The forms of a model's file that other programs read; the words of the API. */
export type ModelForm = "f32" | "f16";

/** The name of a model's file, which is also that of `tributary job export`. */
export function modelFileName(job: string, version: number, form: ModelForm): string {
  return `${job}-v${version}${form === "f32" ? "" : `-${form}`}.safetensors`;
}

/** An answer of the API as it is. */
export async function fetched(api: Api, path: string, query = {}): Promise<Blob> {
  const response = await api.send(path, { accept: "*/*", query });
  return response.blob();
}

/** Saves an answer of the API under a name. */
export async function download(api: Api, path: string, name: string, query = {}): Promise<void> {
  save(await fetched(api, path, query), name);
}

/** Has the browser save a file. */
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
