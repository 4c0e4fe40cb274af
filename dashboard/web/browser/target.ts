// What the browser tests look at: the coordinator that the run started, one named by BASE_URL and TOKEN, or a mock.

import { fileURLToPath } from "node:url";
import { inject } from "vitest";
import type { Mock } from "../mock/server";
import { serve, TOKEN } from "../mock/server";

export interface Target {
  base: string;
  token: string;
  /** There only when the mock is looked at. */
  mock: Mock | undefined;
  close: () => Promise<void>;
}

export async function target(): Promise<Target> {
  const live = inject("coordinator");
  if (live) return { ...live, mock: undefined, close: async () => {} };
  // The configuration hands BASE_URL and TOKEN on under these names: the test runner has a BASE_URL of its own.
  const { DASHBOARD_URL: url, DASHBOARD_TOKEN: token } = process.env;
  if (url) {
    if (!token) throw new Error("BASE_URL needs TOKEN, an operator token of that coordinator");
    return { base: url.replace(/\/$/, ""), token, mock: undefined, close: async () => {} };
  }
  const mock = await serve(fileURLToPath(new URL("../dist", import.meta.url)));
  return { base: mock.url, token: TOKEN, mock, close: mock.close };
}
