import { describe, expect, it } from "vitest";
import type { Job, ModelVersion } from "../src/api/types";
import { cardOf, withCard } from "../src/lib/card";

const TENSOR = { dtype: "F32", shape: [2], data_offsets: [0, 8] };

/** A safetensors file with one tensor of 8 bytes. */
function plain(): Blob {
  const header = `{"__metadata__":{"format":"pt"},"layers.0.weight":${JSON.stringify(TENSOR)}}`;
  const text = new TextEncoder().encode(header.padEnd(Math.ceil(header.length / 8) * 8));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  return new Blob([length, text, new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8])]);
}

const JOB = {
  plan_hash: "ab",
  file: { name: "wards", training: {}, model: { input: [1], layers: [], inputs: { columns: [{ name: "größe" }] } } },
} as unknown as Job;

describe("a downloaded model", () => {
  it("says what it is, and keeps its values at an aligned place", async () => {
    const card = cardOf(JOB, { version: 3, sha256: "cd" } as ModelVersion);
    const file = new Uint8Array(await (await withCard(plain(), card)).arrayBuffer());
    const length = Number(new DataView(file.buffer).getBigUint64(0, true));
    expect(length % 8).toBe(0);
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    expect(header["layers.0.weight"]).toEqual(TENSOR);
    expect(header.__metadata__.format).toBe("pt");
    expect(JSON.parse(header.__metadata__.tributary)).toEqual({
      job: "wards",
      version: 3,
      sha256: "cd",
      plan_sha256: "ab",
      loss: "cross_entropy",
      model: JOB.file.model,
    });
    expect([...file.subarray(8 + length)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });
});
