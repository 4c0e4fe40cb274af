// The cohort of a round: as cells, as numbers per state, and as a bar.

import type { Cell, CohortRound, Round } from "../api/types";
import { type CohortState, cellState, counts, STATES } from "../lib/cohort";
import { plural, words } from "../lib/format";
import { Glyph } from "./glyph";

/** Most cells that are drawn. */
const CELLS_MAX = 500;

/** The word for a client's state: an assigned client is working, an expired one was lost. */
export function stateWord(state: CohortState): string {
  if (state === "assigned") return "working";
  return state === "expired" ? "lost" : state;
}

/** The cohort in one sentence: clients selected, and how many are in each state. */
export function describeCohort(round: Round): string {
  const each = counts(round);
  const parts = STATES.filter((state) => each[state] > 0).map((state) => `${each[state]} ${stateWord(state)}`);
  return `${plural(round.cohort, "client")} selected${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

/** The clients of a round as cells in order of client number; empty places while the cohort is selected. */
export function CohortStrip({ round }: { round: CohortRound }) {
  const cells = round.cells?.map((cell) => ({ ...cell, state: cellState(cell, round) })) ?? synthetic(round);
  if (cells.length === 0) {
    return round.phase === "selecting" ? <Seats amount={round.goal} /> : <p class="strip-empty">No clients.</p>;
  }
  return (
    <div class="strip" role="img" aria-label={describeCohort(round)}>
      {cells.map((cell, index) => (
        <span key={cell.number > 0 ? cell.number : -index} class={`cell cell-${cell.state}`} title={cellTitle(cell)}>
          <Glyph state={cell.state} />
        </span>
      ))}
      {round.cohort > cells.length && <span class="strip-more">+{round.cohort - cells.length}</span>}
    </div>
  );
}

/** One empty place per client that the round waits for. */
function Seats({ amount }: { amount: number }) {
  return (
    <div class="strip" role="img" aria-label="No cohort yet: waiting for available clients">
      {Array.from({ length: Math.min(amount, CELLS_MAX) }, (_, index) => (
        <span key={index} class="cell seat" />
      ))}
    </div>
  );
}

type ShownCell = Omit<Cell, "state"> & { state: CohortState };

function cellTitle(cell: ShownCell): string {
  const reason = cell.reason ? ` (${words(cell.reason)})` : "";
  return cell.number > 0 ? `Client ${cell.number}: ${stateWord(cell.state)}${reason}` : stateWord(cell.state);
}

/** Cells from the counters alone, for a round whose clients are not loaded: client number 0 means unknown. */
function synthetic(round: Round): ShownCell[] {
  const each = counts(round);
  return STATES.flatMap((state) =>
    Array.from({ length: Math.min(each[state], CELLS_MAX) }, () => ({ number: 0, state })),
  ).slice(0, CELLS_MAX);
}

/** How many clients are in each state, with the shapes that the cells have. */
export function CohortLegend({ round }: { round: Round }) {
  const each = counts(round);
  return (
    <ul class="legend">
      {STATES.map((state) => (
        <li key={state} class={each[state] === 0 ? "zero" : ""}>
          <Glyph state={state} />
          <b>{each[state]}</b> {stateWord(state)}
        </li>
      ))}
    </ul>
  );
}

/** A cohort as a bar of states and "reported/selected", as wide as a table cell; the mark is the round's minimum. */
export function CohortBar({ round }: { round: Round }) {
  const each = counts(round);
  const total = Math.max(1, round.cohort);
  let x = 0;
  return (
    <span class="cohort-bar" data-tip={describeCohort(round)}>
      <svg
        viewBox="0 0 100 8"
        width="72"
        height="8"
        preserveAspectRatio="none"
        role="img"
        aria-label={describeCohort(round)}
      >
        <rect class="share-track" width="100" height="8" />
        {(["reported", "assigned", "spare", "rejected", "failed", "expired"] as const).map((state) => {
          const width = (each[state] / total) * 100;
          x += width;
          return width > 0 && <rect key={state} class={`fill-${state}`} x={x - width} width={width} height="8" />;
        })}
        <rect class="share-mark" x={Math.min(98.5, (round.minimum / total) * 100)} width="1.5" height="8" />
      </svg>
      <span>
        {round.reported}/{round.cohort}
      </span>
    </span>
  );
}
