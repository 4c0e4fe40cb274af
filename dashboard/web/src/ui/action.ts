// What a form does when it is submitted.

import { useState } from "preact/hooks";
import type { ApiError } from "../api/http";

/** Runs an action of a form, and keeps why it failed. The action throws an `ApiError`. */
export function useAction(action: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await action();
    } catch (problem) {
      setError(problem as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, run };
}
