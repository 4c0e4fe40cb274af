// One round.

import { useState } from "preact/hooks";
import type { Assignment, CohortRound, Job, Page, Round, RoundDetail, RoundPolicy } from "../api/types";
import { PhaseTimeline, spansOf } from "../charts/timeline";
import { links, useLocation } from "../router";
import { useAssignments } from "../ui/all-assignments";
import { CohortLegend, CohortStrip } from "../ui/cohort";
import { useMay, useNow, useResource } from "../ui/connection";
import { isUndriven } from "../ui/health";
import { Empty, Panel, Pending } from "../ui/parts";
import { OutlookPanel } from "./outlook";
import { PolicyDialog } from "./policy";
import { AssignmentTable } from "./round-assignments";
import { BufferPanel } from "./round-buffer";
import { Deadlines } from "./round-deadlines";
import { GroupsPanel } from "./round-groups";
import { RoundHead } from "./round-head";
import { Lost } from "./round-lost";
import { RelaysPanel } from "./round-relays";
import { RingPanel } from "./round-ring";
import { TimeLines } from "./round-time-lines";
import { Updates } from "./round-updates";

/** Most clients that are drawn as cells. */
const CELLS_MAX = 500;

/** A training round, or with `?task=evaluate` the evaluation of that number. */
export function RoundView({ job, number }: { job: string; number: number }) {
  const { query } = useLocation();
  const task = query.get("task") === "evaluate" ? "evaluate" : "train";
  const live = (event: { job: string; round?: number }) => event.job === job && event.round === number;
  const detail = useResource<RoundDetail>(`jobs/${job}/rounds/${number}`, { task }, { live });
  // A coordinator without the detail still lists its rounds: the one after `number - 1`.
  const bare = useResource<Page<Round>>(
    detail.error?.missing ? `jobs/${job}/rounds` : undefined,
    { task, order: "asc", after: number - 1, limit: 1 },
    { live },
  );
  const parent = useResource<Job>(`jobs/${job}`);
  const may = useMay("operator");
  const [suggested, suggest] = useState<Partial<RoundPolicy>>();
  const [tried, setTried] = useState<number>();
  const found = bare.data?.items.find((round) => round.number === number);
  const data: RoundDetail | undefined =
    detail.data ?? (found && { round: found, phases: spansOf(found), explanation: "", what_if: [] });
  const assignments = useAssignments(job, number, task, data?.round);
  if (!data) {
    const gone = bare.data && !found;
    return (
      <>
        <h1>Round {number}</h1>
        <Panel title={gone ? "Not found" : "State"}>
          {gone ? (
            <Empty title="This job has no such round">
              <a href={links.job(job, "rounds")}>All rounds of this job</a>
            </Empty>
          ) : (
            <Pending resource={detail.error?.missing ? bare : detail} lines={12} />
          )}
        </Panel>
      </>
    );
  }
  const round = settled(data.round, assignments.items);
  const central = task === "evaluate" && round.goal === 0;
  const masked = (data.groups?.length ?? 0) > 0;
  const canChange = may && task === "train" && ["running", "paused"].includes(parent.data?.state ?? "");
  return (
    <>
      <RoundHead
        job={job}
        name={parent.data?.file.name}
        newest={parent.data?.rounds_opened}
        data={data}
        undriven={round.ended_at_ms === undefined && isUndriven(parent.data?.health)}
        onPolicy={canChange && round.phase === "abandoned" ? () => suggest({}) : undefined}
      />
      <Panel title="Phases">
        <Phases data={data} />
        {!central && (
          <div class="cohort">
            {round.cohort > 0 && <CohortStrip round={{ ...round, ...cellsOf(assignments.items) }} />}
            <CohortLegend round={round} />
          </div>
        )}
      </Panel>
      <BufferPanel job={job} data={data} />
      <GroupsPanel data={data} />
      <RingPanel data={data} />
      <Lost items={assignments.items} />
      {!central && <TimeLines round={round} assignments={assignments} />}
      {task === "train" && assignments.items.length > 0 && (
        <Deadlines round={round} assignments={assignments.items} triedMs={tried} />
      )}
      {task === "train" && parent.data && round.ended_at_ms !== undefined && !round.buffer && (
        <OutlookPanel job={parent.data} changed={parent.refresh} onTried={setTried} />
      )}
      {task === "train" && !masked && assignments.items.length > 0 && (
        <Updates round={round} assignments={assignments.items} />
      )}
      <RelaysPanel items={assignments.items} />
      <AssignmentTable assignments={assignments} task={task} masked={masked} />
      {suggested && parent.data && (
        <PolicyDialog
          job={parent.data}
          suggested={suggested}
          onClose={() => suggest(undefined)}
          onSaved={parent.refresh}
        />
      )}
    </>
  );
}

/** The round, with the spares that its assignments name: one that never came back is lost. */
function settled(round: Round, items: readonly Assignment[]): Round {
  if (items.length === 0 || items.length < round.cohort) return round;
  return { ...round, spare: items.filter((item) => item.spare).length };
}

function cellsOf(items: readonly Assignment[]): Pick<CohortRound, "cells"> {
  if (items.length === 0) return {};
  return {
    cells: items.slice(0, CELLS_MAX).map((item) => ({
      number: item.client_number,
      state: item.state,
      spare: item.spare === true,
      ...(item.reason === undefined ? {} : { reason: item.reason }),
    })),
  };
}

/** The phases of the round on a time line. */
function Phases({ data }: { data: RoundDetail }) {
  const now = useNow(1000);
  return <PhaseTimeline spans={data.phases.length > 0 ? data.phases : spansOf(data.round)} nowMs={now} />;
}
