// The clients of a round on a time line.

import { useMemo, useState } from "preact/hooks";
import type { Assignment, Round } from "../api/types";
import { Gantt, SEGMENT_WORDS } from "../charts/gantt";
import type { SegmentKind } from "../lib/assignments";
import { STATES, shownState } from "../lib/cohort";
import type { Assignments } from "../ui/all-assignments";
import { describeCohort } from "../ui/cohort";
import { useNow } from "../ui/connection";
import { Empty, NotAvailable, Panel, Segmented, Trouble } from "../ui/parts";

type GanttOrder = "time" | "number" | "state";

/** The assignments as a Gantt chart, in an order that the person chooses. */
export function TimeLines({ round, assignments }: { round: Round; assignments: Assignments }) {
  const [order, setOrder] = useState<GanttOrder>("time");
  const open = round.ended_at_ms === undefined;
  const now = useNow(open ? 1000 : 60_000);
  const sorted = useMemo(() => [...assignments.items].sort(comparison(order)), [assignments.items, order]);
  const actions = (
    <Segmented
      label="Order of the clients"
      value={order}
      onChange={setOrder}
      options={[
        { value: "time", label: "By time" },
        { value: "state", label: "By state" },
        { value: "number", label: "By number" },
      ]}
    />
  );
  return (
    <Panel title="Clients on a time line" actions={actions} hint={describeCohort(round)}>
      {sorted.length > 0 ? (
        <>
          <Gantt assignments={sorted} round={round} nowMs={now} />
          <ul class="legend gantt-legend">
            {(Object.keys(SEGMENT_WORDS) as SegmentKind[]).map((kind) => (
              <li key={kind}>
                <i class={`swatch seg-${kind}`} aria-hidden="true" />
                {SEGMENT_WORDS[kind]}
              </li>
            ))}
            <li>
              <i class="swatch-line line-deadline" aria-hidden="true" />
              deadline
            </li>
            <li>
              <i class="swatch-line line-close" aria-hidden="true" />
              round closed
            </li>
          </ul>
        </>
      ) : (
        <NoAssignments round={round} assignments={assignments} />
      )}
    </Panel>
  );
}

function comparison(order: GanttOrder): (a: Assignment, b: Assignment) => number {
  const end = (item: Assignment) => item.ended_at_ms ?? Number.MAX_SAFE_INTEGER;
  const byNumber = (a: Assignment, b: Assignment) => a.client_number - b.client_number;
  const byTime = (a: Assignment, b: Assignment) => end(a) - end(b) || byNumber(a, b);
  const byState = (a: Assignment, b: Assignment) =>
    STATES.indexOf(shownState(a)) - STATES.indexOf(shownState(b)) || byTime(a, b);
  return { time: byTime, number: byNumber, state: byState }[order];
}

/** Says why there are no assignments to draw. */
function NoAssignments({ round, assignments: { loading, error } }: { round: Round; assignments: Assignments }) {
  if (error?.status === 410) return <Empty title="Deleted">{error.detail}</Empty>;
  if (error?.missing) return <NotAvailable what="The list of assignments" />;
  if (error) return <Trouble error={error} />;
  if (loading)
    return (
      <div class="skeleton" aria-busy="true">
        <span />
        <span />
        <span />
        <span />
      </div>
    );
  return round.phase === "selecting" ? (
    <Empty title="No cohort yet" command="tributary client list --population NAME">
      The round waits until enough eligible clients have checked in. Who is there:
    </Empty>
  ) : (
    <Empty title="No client was selected" />
  );
}
