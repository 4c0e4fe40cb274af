// The assignments of a round on one time line: download, training, upload, wait. Only the rows in sight are drawn.

import { useState } from "preact/hooks";
import type { Assignment, Round } from "../api/types";
import { closedAtMs, type SegmentKind, segments } from "../lib/assignments";
import { type CohortState, shownState } from "../lib/cohort";
import { duration } from "../lib/format";
import { linear, niceTimeStep, ticks } from "../lib/scale";
import { links } from "../router";
import { stateWord } from "../ui/cohort";
import { useWidth } from "./measure";

const ROW = 18;
const HEAD = 26;
const MARGIN = 64;
/** Rows in sight before the chart scrolls. */
const ROWS_SEEN = 20;
/** Rows drawn above and below those in sight, so that scrolling shows no gap. */
const OVERSCAN = 6;

export const SEGMENT_WORDS: Record<SegmentKind, string> = {
  download: "download",
  train: "training",
  upload: "upload",
  wait: "waiting for the round",
  lost: "did not count",
  late: "after the round had closed",
};

/** One row per assignment, in the order given, with the deadline and the close of the round as lines. */
export function Gantt({
  assignments,
  round,
  nowMs,
}: {
  assignments: readonly Assignment[];
  round: Round;
  nowMs: number;
}) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const [top, setTop] = useState(0);
  const startMs = round.selected_at_ms ?? round.opened_at_ms;
  const closeMs = closedAtMs(round, nowMs);
  // A deadline far away would squeeze the work into a corner; it is drawn when it is near.
  const deadlineMs = round.deadline_at_ms;
  const near = deadlineMs !== undefined && deadlineMs - startMs < (closeMs - startMs) * 1.6;
  // The tails of stragglers are drawn as far as the close is from the start, so that one does not squeeze the rest.
  const back = assignments.map(({ late_at_ms, stopped_at_ms }) => late_at_ms ?? stopped_at_ms ?? 0);
  const tailMs = Math.min(Math.max(0, ...back), closeMs + (closeMs - startMs));
  const endMs = Math.max(closeMs, near ? deadlineMs : 0, tailMs, startMs + 1);
  const x = linear([startMs, endMs], [MARGIN, Math.max(MARGIN + 1, width - 14)]);
  const height = assignments.length * ROW;
  const seen = Math.min(height, ROWS_SEEN * ROW);
  const first = Math.max(0, Math.floor(top / ROW) - OVERSCAN);
  const rows = assignments.slice(first, first + ROWS_SEEN + 2 * OVERSCAN);
  const steps = ticks(0, endMs - startMs, niceTimeStep(endMs - startMs, Math.max(2, (width - MARGIN) / 100)));
  return (
    <div ref={frame} class="gantt">
      {width > 0 && (
        <>
          <svg class="gantt-head" width={width} height={HEAD} aria-hidden="true">
            {steps.map((ms) => (
              <text key={ms} class="tick-text" x={x(startMs + ms)} y={16} text-anchor="middle">
                {ms === 0 ? "0" : duration(ms)}
              </text>
            ))}
          </svg>
          {/* biome-ignore lint/a11y/useSemanticElements: a fieldset groups the controls of a form, not a drawing */}
          <div
            class={`gantt-rows ${height > seen ? "gantt-long" : ""}`}
            tabIndex={height > seen ? 0 : undefined}
            role="group"
            aria-label="Time line of each client; the same figures are in the table of assignments"
            onScroll={(event) => setTop(event.currentTarget.scrollTop)}
          >
            <svg width={width} height={Math.max(height, ROW)} aria-hidden="true">
              {steps.map((ms) => (
                <path key={ms} class="gantt-grid" d={`M${x(startMs + ms)} 0V${height}`} />
              ))}
              {rows.map((assignment, index) => (
                <Row
                  key={assignment.id}
                  assignment={assignment}
                  round={round}
                  nowMs={nowMs}
                  y={(first + index) * ROW}
                  x={x}
                  toMs={endMs}
                />
              ))}
              {near && <path class="gantt-deadline" d={`M${x(deadlineMs)} 0V${height}`} />}
              {round.closed_at_ms !== undefined && (
                <path class="gantt-close" d={`M${x(round.closed_at_ms)} 0V${height}`} />
              )}
            </svg>
          </div>
        </>
      )}
    </div>
  );
}

/** The segments of one assignment, as a link to its client. `y` is the top of the row, `x` scales times to pixels. */
function Row({
  assignment,
  round,
  nowMs,
  y,
  x,
  toMs,
}: {
  assignment: Assignment;
  round: Round;
  nowMs: number;
  y: number;
  x: (ms: number) => number;
  /** The end of the chart. */
  toMs: number;
}) {
  const isThin = (kind: SegmentKind) => kind === "wait" || kind === "late";
  const parts = segments(assignment, round, nowMs);
  const last = parts.findLast((part) => !isThin(part.kind));
  const end = x(last?.toMs ?? assignment.assigned_at_ms);
  return (
    <a href={links.client(assignment.client)} tabindex={-1} class="gantt-row" data-tip={describe(assignment, parts)}>
      <rect class="gantt-hit" x="0" y={y} width="100%" height={ROW} />
      <text class="tick-text" x={MARGIN - 22} y={y + 13} text-anchor="end">
        {assignment.client_number}
      </text>
      <g transform={`translate(${MARGIN - 18} ${y + 3})`}>
        <StateMark state={shownState(assignment)} />
      </g>
      {parts.map((part) => (
        <rect
          key={part.kind}
          class={`seg seg-${part.kind}`}
          x={x(part.fromMs)}
          width={Math.max(1, x(Math.min(part.toMs, toMs)) - x(part.fromMs))}
          y={isThin(part.kind) ? y + 8 : y + 4}
          height={isThin(part.kind) ? 2 : 10}
        />
      ))}
      {assignment.state === "assigned" && <circle class="gantt-now" cx={end} cy={y + 9} r="3" />}
    </a>
  );
}

/** The shape of an assignment's state, drawn in the chart's own SVG. */
function StateMark({ state }: { state: CohortState }) {
  const mark = {
    assigned: "M6 1.75a4.25 4.25 0 0 1 0 8.5z",
    reported: "M2.6 6.4 5 8.8 9.6 3.2",
    rejected: "M3 3l6 6M9 3L3 9",
    failed: "M6 2 10.5 10h-9z",
    spare: "M6 1.7a4.3 4.3 0 1 0 .01 0",
    expired: "M6 3v3l2 1.4M6 1.7a4.3 4.3 0 1 0 .01 0",
  }[state];
  return <path class={`mark-${state}`} d={mark} />;
}

function describe(assignment: Assignment, parts: ReturnType<typeof segments>): string {
  const lines = parts.map((part) => `${SEGMENT_WORDS[part.kind]} ${duration(part.toMs - part.fromMs)}`);
  const why = assignment.explanation ? ` (${assignment.explanation})` : "";
  const state = stateWord(shownState(assignment));
  return [`Client ${assignment.client_number}: ${state}${why}`, ...lines].join("\n");
}
