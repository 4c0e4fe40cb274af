// All assignments of a round, loaded page after page.

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import type { Assignment, Page, Round } from "../api/types";
import { useConnection } from "./connection";

/** Most assignments that are drawn; a larger cohort shows its first ones by client number. */
export const ASSIGNMENTS_MAX = 5_000;
const PAGE = 1_000;

export interface Assignments {
  items: readonly Assignment[];
  loading: boolean;
  error: ApiError | undefined;
}

/** All assignments of a round, page after page; again when its counters have moved. */
export function useAssignments(job: string, number: number, task: string, round: Round | undefined): Assignments {
  const { api } = useConnection();
  const [state, set] = useState<Assignments>({ items: [], loading: true, error: undefined });
  const version =
    round && [round.phase, round.cohort, round.reported, round.rejected, round.failed, round.expired].join();
  useEffect(() => {
    if (version === undefined) return;
    const abort = new AbortController();
    const load = async () => {
      const items: Assignment[] = [];
      let after: string | undefined;
      do {
        const page: Page<Assignment> = await api.json(`jobs/${job}/rounds/${number}/assignments`, {
          query: { task, limit: PAGE, after },
          signal: abort.signal,
        });
        items.push(...page.items);
        after = page.next;
      } while (after !== undefined && items.length < ASSIGNMENTS_MAX);
      if (!abort.signal.aborted) set({ items, loading: false, error: undefined });
    };
    load().catch((error: unknown) => {
      if (!abort.signal.aborted)
        set((before) => ({
          ...before,
          loading: false,
          error: error instanceof ApiError ? error : new ApiError(0, "The answer does not parse", String(error)),
        }));
    });
    return () => abort.abort();
  }, [api, job, number, task, version]);
  return state;
}
