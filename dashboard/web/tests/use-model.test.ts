import { describe, expect, it } from "vitest";
import type { Job } from "../src/api/types";
import { programOf, waysOf } from "../src/lib/use-model";

function job(model: object): Job {
  return { model_version: 4, file: { name: "wards", model } } as unknown as Job;
}

const INPUTS = {
  columns: [
    { name: "age", mean: 40.123456 },
    { name: "ward", kind: "category", categories: ["east", "west"] },
    { name: "admitted", kind: "date" },
    { name: "weight", range: [3, 200] },
  ],
};
const NETWORK = { input: [4], layers: [{ kind: "linear", out_features: 2 }] };

describe("the programs that use a model", () => {
  it("have a row with the job's columns", () => {
    const named = job({ ...NETWORK, inputs: INPUTS });
    const python = programOf(named, "python");
    expect(python).toContain('tributary.load("wards-v4.safetensors")');
    expect(python).toContain('    "age": 40.12,\n    "ward": "east",\n    "admitted": "2026-11-25",\n    "weight": 3,');
    const rust = programOf(named, "rust");
    expect(rust).toContain('("age", Value::Number(40.12))');
    expect(rust).toContain('("ward", Value::Text("east"))');
    expect(rust).toContain('("weight", Value::Number(3.0))');
    expect(programOf(named, "cli")).toContain("--csv new.csv");
    expect(programOf(named, "onnx")).toContain("one input for each of its texts");
    expect(waysOf(named).map(({ value }) => value)).toEqual(["python", "cli", "rust", "onnx", "torch"]);
  });

  it("have values in their order where no columns are named, and parameters alone of an app's network", () => {
    const plain = job({ ...NETWORK, input: [1, 2, 3] });
    expect(programOf(plain, "python")).toContain("row = [0.0] * 6");
    expect(programOf(plain, "rust")).toContain("model.predict(&[0.0; 6])");
    expect(programOf(plain, "onnx")).toContain("numpy.zeros([1, 1, 2, 3], numpy.float32)");
    expect(waysOf(plain).map(({ value }) => value)).toEqual(["python", "rust", "onnx", "torch"]);
    const own = job({ parameters: [{ name: "w", shape: [1] }] });
    expect(waysOf(own).map(({ value }) => value)).toEqual(["torch"]);
    expect(programOf(own, "torch")).toContain('model.load_state_dict(load_file("wards-v4.safetensors"))');
  });
});
