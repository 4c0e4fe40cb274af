// One round: its explanation, its phases, its clients on a time line, and the effect of other deadlines.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import type { Assignment, CohortRound, Job, Page, Round, RoundDetail, RoundPolicy } from "../api/types";
import { Gantt, SEGMENT_WORDS } from "../charts/gantt";
import { PhaseTimeline, spansOf } from "../charts/timeline";
import { type SegmentKind, tookMs } from "../lib/assignments";
import { type CohortState, STATES, shownState } from "../lib/cohort";
import { bytes, count, duration, percent, plural, real, words } from "../lib/format";
import { links, useLocation } from "../router";
import { CohortLegend, CohortStrip, describeCohort, stateWord } from "../ui/cohort";
import { useConnection, useMay, useNow, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { useNarrow } from "../ui/narrow";
import {
  Ago,
  At,
  Choice,
  Empty,
  Hint,
  NotAvailable,
  Panel,
  Pending,
  Segmented,
  Stat,
  Stats,
  Trouble,
} from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { Shape } from "./job-sessions";
import { Countdown, roundName } from "./live-round";
import { PolicyDialog } from "./policy";
import { BufferPanel } from "./round-buffer";
import { Deadlines } from "./round-deadlines";
import { Updates } from "./round-updates";

/** Most assignments that are drawn; a larger cohort shows its first ones by client number. */
const ASSIGNMENTS_MAX = 5_000;
const PAGE = 1_000;
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
  const canChange = may && task === "train" && ["running", "paused"].includes(parent.data?.state ?? "");
  return (
    <>
      <RoundHead
        job={job}
        name={parent.data?.file.name}
        newest={parent.data?.rounds_opened}
        data={data}
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
      <BufferPanel data={data} />
      <Lost items={assignments.items} />
      {!central && <TimeLines round={round} assignments={assignments} />}
      {task === "train" && assignments.items.length > 0 && (
        <Deadlines
          round={round}
          assignments={assignments.items}
          whatIf={data.what_if}
          onUse={canChange ? (deadline_ms) => suggest({ deadline_ms }) : undefined}
        />
      )}
      {task === "train" && assignments.items.length > 0 && <Updates round={round} assignments={assignments.items} />}
      <AssignmentTable assignments={assignments} task={task} />
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

interface Assignments {
  items: readonly Assignment[];
  loading: boolean;
  error: ApiError | undefined;
}

/** All assignments of a round, page after page; again when its counters have moved. */
function useAssignments(job: string, number: number, task: string, round: Round | undefined): Assignments {
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

/** Explanation, neighbours and figures of a round. `newest` is the number of the job's newest round. */
function RoundHead({
  job,
  name,
  newest,
  data,
  onPolicy,
}: {
  job: string;
  name: string | undefined;
  newest: number | undefined;
  data: RoundDetail;
  /** Opens the round policy; there after an abandoned round. */
  onPolicy: (() => void) | undefined;
}) {
  const { round, evaluation } = data;
  const now = useNow(1000);
  const ms = (round.ended_at_ms ?? now) - round.opened_at_ms;
  const measured = evaluation ?? round;
  return (
    <header class="view-head round-head">
      <div>
        <p class="crumbs">
          <a href={links.overview()}>Overview</a> / <a href={links.job(job)}>{name ?? "job"}</a> /{" "}
          <a href={links.job(job, "rounds")}>rounds</a>
        </p>
        <div class="job-title">
          <h1>{roundName(round)}</h1>
          <StateTag state={round.phase} text={round.reason ? `abandoned: ${words(round.reason)}` : undefined} />
          {round.ended_at_ms === undefined && <Countdown round={round} />}
        </div>
        <p class="quiet">
          opened <At at={round.opened_at_ms} />
        </p>
        {data.explanation && <p class="explanation">{data.explanation}</p>}
      </div>
      <nav class="actions" aria-label="Neighbouring rounds">
        <a
          class="button small"
          aria-disabled={round.number <= 1}
          href={round.number > 1 ? links.round(job, round.number - 1, round.task) : undefined}
        >
          ← Previous
        </a>
        <a
          class="button small"
          aria-disabled={newest !== undefined && round.number >= newest}
          href={
            newest === undefined || round.number < newest ? links.round(job, round.number + 1, round.task) : undefined
          }
        >
          Next →
        </a>
        {onPolicy && (
          <button type="button" class="small" onClick={onPolicy}>
            Change round policy
          </button>
        )}
        {evaluation && round.task === "train" && (
          <a class="button small" href={links.round(job, evaluation.number, "evaluate")}>
            Evaluation
          </a>
        )}
        {round.task === "evaluate" && (
          <a class="button small" href={links.round(job, round.number)}>
            Training round
          </a>
        )}
      </nav>
      <Stats class="head-stats">
        {round.goal > 0 && (
          <Stat
            label={round.task === "train" ? "Updates" : "Reports"}
            value={count(round.reported)}
            detail={round.buffer ? `buffer of ${round.goal}` : `goal ${round.goal}, min ${round.minimum}`}
          />
        )}
        <Stat label="Took" value={duration(ms)} detail={<Ago at={round.opened_at_ms} />} />
        <Stat
          label="Accuracy"
          value={percent(measured.accuracy)}
          detail={evaluation ? "after this round" : undefined}
        />
        <Stat
          label="Loss"
          value={real(measured.loss)}
          detail={round.training_loss === undefined ? undefined : `training ${real(round.training_loss)}`}
        />
        <Stat label="Client work" value={duration(round.clients_ms)} />
        <Stat label="Up" value={bytes(round.bytes_up)} detail={ratio(round.raw_bytes_up, round.bytes_up)} />
        <Stat label="Down" value={bytes(round.bytes_down)} detail={ratio(round.raw_bytes_down, round.bytes_down)} />
        <Stat label="From version" value={count(round.base_version)} title={`seed ${round.seed}`} />
      </Stats>
    </header>
  );
}

/** How many times smaller than plain f32 the sent bytes were, in words; undefined below 1 %. */
function ratio(raw: number | undefined, sent: number): string | undefined {
  return raw && sent > 0 && raw > sent * 1.01 ? `${(raw / sent).toFixed(1)} × compressed` : undefined;
}

/** The phases of the round on a time line. */
function Phases({ data }: { data: RoundDetail }) {
  const now = useNow(1000);
  return <PhaseTimeline spans={data.phases.length > 0 ? data.phases : spansOf(data.round)} nowMs={now} />;
}

const STRAGGLERS = {
  finished_late: "finished after the round had closed",
  stopped: "stopped when the round had closed, unfinished",
  not_back: "never came back",
} as const;

/** What groups the clients whose report did not count: times differ from one to the next. */
function kindOf(item: Assignment): string {
  return item.straggler ? STRAGGLERS[item.straggler] : lossReason(item);
}

/** The clients whose report did not count, grouped by reason. */
function Lost({ items }: { items: readonly Assignment[] }) {
  const lost = items.filter((item) => item.state === "rejected" || item.state === "failed" || item.state === "expired");
  if (lost.length === 0) return null;
  const groups = new Map<string, Assignment[]>();
  for (const item of lost) {
    const key = `${shownState(item)}|${kindOf(item)}`;
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return (
    <Panel title="Not counted" hint="spares that were not needed, stragglers, refused updates, clients that gave up">
      <ul class="lost">
        {[...groups]
          .sort(([, a], [, b]) => b.length - a.length)
          .map(([key, group]) => {
            const [state = "", ...parts] = key.split("|");
            const reason = parts.join("|");
            return (
              <li key={key}>
                <StateTag state={state} text={stateWord(state as CohortState)} />
                <span class="lost-reason">{group.length === 1 ? lossReason(group[0]!) : words(reason)}</span>
                <span class="lost-clients">
                  {plural(group.length, "client")}:{" "}
                  {group.slice(0, 12).map((item, index) => (
                    <>
                      {index > 0 && ", "}
                      <a key={item.id} href={links.client(item.client)}>
                        {item.client_number}
                      </a>
                    </>
                  ))}
                  {group.length > 12 && " …"}
                </span>
              </li>
            );
          })}
      </ul>
    </Panel>
  );
}

/** Why the report of a client did not count. */
function lossReason({ explanation, reason }: Assignment): string {
  return explanation ?? (reason ? words(reason) : "no reason given");
}

type GanttOrder = "time" | "number" | "state";

/** The assignments as a Gantt chart, in an order that the person chooses. */
function TimeLines({ round, assignments }: { round: Round; assignments: Assignments }) {
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

/** Why the report did not count; a report that did has no reason. */
function Reason({ item }: { item: Assignment }) {
  if (item.state === "reported" || item.state === "assigned") return null;
  return (
    <span class="reason">
      <Hint text={item.reason && item.explanation ? item.reason : undefined}>{lossReason(item)}</Hint>
    </span>
  );
}

const PER_PAGE = 50;

function columnsOf(task: string): Column<Assignment>[] {
  return [
    {
      head: "Client",
      name: true,
      sort: (item) => item.client_number,
      cell: (item) => <a href={links.client(item.client)}>{item.client_number}</a>,
    },
    {
      head: "State",
      sort: (item) => STATES.indexOf(shownState(item)),
      cell: (item) => <StateTag state={shownState(item)} text={stateWord(shownState(item))} />,
    },
    { head: "Session", cell: (item) => <Shape shape={item.shape} state={shownState(item)} /> },
    { head: "Reason", cell: (item) => <Reason item={item} /> },
    {
      head: "Took",
      number: true,
      title: "the client's own time: of a straggler, until it came back",
      sort: tookMs,
      cell: (item) => duration(tookMs(item)),
    },
    { head: "Worked", number: true, sort: (item) => item.work_ms, cell: (item) => duration(item.work_ms) },
    { head: "Examples", number: true, sort: (item) => item.weight, cell: (item) => count(item.weight) },
    { head: "Loss", number: true, sort: (item) => item.loss, cell: (item) => real(item.loss) },
    ...(task === "train"
      ? [
          {
            head: "Norm",
            number: true,
            wide: true,
            sort: (item: Assignment) => item.update_norm,
            cell: (item: Assignment) => real(item.update_norm),
          },
          {
            head: "Cosine",
            number: true,
            wide: true,
            sort: (item: Assignment) => item.cosine,
            cell: (item: Assignment) => real(item.cosine),
          },
        ]
      : [{ head: "Accuracy", number: true, cell: (item: Assignment) => percent(item.accuracy) }]),
    { head: "Up", number: true, wide: true, cell: (item) => bytes(item.bytes_up) },
    { head: "Down", number: true, wide: true, cell: (item) => bytes(item.bytes_down) },
  ];
}

/** Two lines per assignment: client and reason; state, and how long it took. */
const PHONE: Column<Assignment>[] = [
  {
    head: "Client",
    name: true,
    sort: (item) => item.client_number,
    cell: (item) => (
      <span class="two-lines">
        <span class="one-line">
          <a href={links.client(item.client)}>{item.client_number}</a>
          <Shape shape={item.shape} state={shownState(item)} />
        </span>
        <small class="quiet">
          {item.state === "reported" || item.state === "assigned"
            ? plural(item.weight ?? 0, "example")
            : lossReason(item)}
        </small>
      </span>
    ),
  },
  {
    head: "State",
    number: true,
    sort: (item) => STATES.indexOf(shownState(item)),
    cell: (item) => (
      <span class="two-lines">
        <StateTag state={shownState(item)} text={stateWord(shownState(item))} />
        <small class="quiet">{duration(tookMs(item))}</small>
      </span>
    ),
  },
];

/** The assignments as a table with a filter by state. */
function AssignmentTable({ assignments, task }: { assignments: Assignments; task: string }) {
  const narrow = useNarrow();
  const [state, setState] = useState("");
  const [page, setPage] = useState(0);
  const rows = assignments.items.filter((item) => state === "" || shownState(item) === state);
  const last = Math.max(0, Math.ceil(rows.length / PER_PAGE) - 1);
  const at = Math.min(page, last);
  if (assignments.items.length === 0) return null;
  return (
    <Panel
      title="Assignments"
      hint={
        assignments.items.length >= ASSIGNMENTS_MAX
          ? `the first ${count(ASSIGNMENTS_MAX)}`
          : plural(rows.length, "client")
      }
      actions={
        <Choice
          label="State"
          value={state}
          onChange={(value) => {
            setState(value);
            setPage(0);
          }}
          options={[{ value: "", label: "any" }, ...STATES.map((name) => ({ value: name, label: stateWord(name) }))]}
        />
      }
    >
      <Table
        label="Assignments"
        class={narrow ? "phone-rows" : ""}
        columns={narrow ? PHONE : columnsOf(task)}
        rows={rows}
        slice={[at * PER_PAGE, (at + 1) * PER_PAGE]}
        rowKey={(item) => item.id}
        empty={<Empty title="No client is in this state" />}
      />
      {last > 0 && (
        <nav class="pager" aria-label="Pages of assignments">
          <span>
            {count(at * PER_PAGE + 1)} to {count(Math.min(rows.length, (at + 1) * PER_PAGE))} of {count(rows.length)}
          </span>
          <span class="pager-buttons">
            <button type="button" class="small" disabled={at === 0} onClick={() => setPage(at - 1)}>
              Back
            </button>
            <button type="button" class="small" disabled={at === last} onClick={() => setPage(at + 1)}>
              Next
            </button>
          </span>
        </nav>
      )}
    </Panel>
  );
}
