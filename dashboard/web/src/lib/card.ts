// What a downloaded model says of itself: the page writes the same card into a file as `tributary job export`. The
// hash of a version is that of its plain file, and the card is outside of it, so the coordinator keeps and serves
// plain files.

import type { Job, ModelVersion } from "../api/types";

/** Bytes of the number at the beginning of a safetensors file: the length of its header, which follows. */
const LENGTH_BYTES = 8;
/** Headers end at a multiple of so many bytes. */
const ALIGNMENT = 8;

/** The card of a version. */
export function cardOf(job: Job, { version, sha256 }: ModelVersion) {
  const { name, training, model } = job.file;
  return { job: name, version, sha256, plan_sha256: job.plan_hash, loss: training?.loss ?? "cross_entropy", model };
}

/** A plain safetensors file with a card in its metadata. Its values are not copied. */
export async function withCard(file: Blob, card: object): Promise<Blob> {
  const length = Number(new DataView(await file.slice(0, LENGTH_BYTES).arrayBuffer()).getBigUint64(0, true));
  const text = await file.slice(LENGTH_BYTES, LENGTH_BYTES + length).text();
  const { __metadata__: metadata, ...tensors } = JSON.parse(text) as Record<string, object>;
  const described = { __metadata__: { ...metadata, tributary: JSON.stringify(card) }, ...tensors };
  const header = new TextEncoder().encode(JSON.stringify(described));
  const padded = new Uint8Array(LENGTH_BYTES + Math.ceil(header.length / ALIGNMENT) * ALIGNMENT).fill(0x20);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - LENGTH_BYTES), true);
  padded.set(header, LENGTH_BYTES);
  return new Blob([padded, file.slice(LENGTH_BYTES + length)]);
}
