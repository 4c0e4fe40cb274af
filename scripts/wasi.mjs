// Runs a program of wasm32-wasip1: `node wasi.mjs PROGRAM [its arguments]`.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...options] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [path, ...options], env: process.env, preopens: { "/": "/" } });
const { instance } = await WebAssembly.instantiate(await readFile(path), wasi.getImportObject());
wasi.start(instance);
