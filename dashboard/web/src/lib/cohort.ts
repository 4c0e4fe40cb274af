// The cohort of a round in numbers that add up.

import type { Assignment, AssignmentState, Cell, CohortCell, CohortRound, Round } from "../api/types";
import { words } from "./format";

/** A state as the page shows it: a straggler that its round did not need is a spare, the others are lost. */
export type CohortState = AssignmentState | "spare";

export const STATES: readonly CohortState[] = ["assigned", "reported", "spare", "rejected", "failed", "expired"];

/** How many clients are in each state, by the round's own counters. */
export function counts(round: Round): Record<CohortState, number> {
  const { reported, rejected, failed, expired } = round;
  const spare = Math.min(expired, round.spare ?? 0);
  const ended = reported + rejected + failed + expired;
  const open = round.phase === "training" || round.phase === "selecting" || round.phase === "aggregating";
  return {
    assigned: round.assigned ?? (open ? Math.max(0, round.cohort - ended) : 0),
    reported,
    spare,
    rejected,
    failed,
    expired: expired - spare,
  };
}

/** The state of an assignment as the page shows it. */
export function shownState(item: Pick<Assignment, "state" | "spare">): CohortState {
  return item.spare ? "spare" : item.state;
}

/** The state of a member of the cohort as the page shows it. */
export function cellState(cell: Pick<CohortCell, "state" | "spare">, round: Round): CohortState {
  const spare = cell.spare ?? (round.spare ?? 0) > 0;
  return cell.state === "expired" && spare ? "spare" : cell.state;
}

/**
 * A round with its cells. Both come from answers of different moments: when all cells are there, every counter is taken
 * from them, so that the numbers add up to the cohort.
 */
export function counted(round: Round, cells: Cell[]): CohortRound {
  if (cells.length === 0) return round;
  if (cells.length < round.cohort) return { ...round, cells };
  const of = (state: AssignmentState) => cells.filter((cell) => cell.state === state).length;
  return {
    ...round,
    cells,
    cohort: cells.length,
    assigned: of("assigned"),
    reported: of("reported"),
    rejected: of("rejected"),
    failed: of("failed"),
    expired: of("expired"),
  };
}

/** Why the report of a client did not count. */
export function lossReason({ explanation, reason }: Assignment): string {
  return explanation ?? (reason ? words(reason) : "no reason given");
}
