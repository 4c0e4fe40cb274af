// The rounds of a job as a table that filters and pages on the server.

import type { AbandonReason, FeedEvent, Job, Page, Round } from "../api/types";
import { counts } from "../lib/cohort";
import { download } from "../lib/download";
import { endsSomething } from "../lib/events";
import { bytes, count, duration, percent, plural, real, UNKNOWN, words } from "../lib/format";
import { links, setQuery, useLocation } from "../router";
import { CohortBar } from "../ui/cohort";
import { useConnection, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { Measured } from "../ui/measured";
import { useNarrow } from "../ui/narrow";
import { Choice, Empty, Hint, Panel, Pending, When } from "../ui/parts";
import { type Column, Pager, Table, usePaging } from "../ui/table";

const PAGE = 50;
/** Why a round was abandoned, spelt out. */
const REASON_TEXTS: Record<AbandonReason, string> = {
  selection_timeout: "Too few eligible clients checked in before the selection timed out.",
  too_few_reports: "Fewer updates than the minimum had come at the deadline.",
  job_stopped: "An operator stopped the job.",
  not_finite: "The sum of the updates has values that are no numbers, so the model stayed.",
  fault: "A stored update or the base model could not be read.",
  superseded: "A newer evaluation took its place.",
  overdrawn: "The secret draw took more clients than a round may have, which is rare.",
  upstream: "The parent of this relay takes no sum of the round any more.",
};
const REASONS = Object.keys(REASON_TEXTS) as AbandonReason[];

/** The orders that the phone, which shows no heads to press, has too. */
const ORDERS = [
  { value: "number desc", label: "newest first" },
  { value: "number asc", label: "oldest first" },
  { value: "took desc", label: "slowest first" },
  { value: "accuracy asc", label: "lowest accuracy first" },
  { value: "loss desc", label: "highest loss first" },
  { value: "lost desc", label: "most lost first" },
];

/** How long a round took, or has taken so far. */
function roundMs(round: Round): number | undefined {
  return round.ended_at_ms === undefined ? undefined : round.ended_at_ms - round.opened_at_ms;
}

function columnsOf(job: string, task: string): Column<Round>[] {
  const columns: Column<Round>[] = [
    {
      head: "Round",
      name: true,
      key: "number",
      cell: (round) => <a href={links.round(job, round.number, round.task)}>{count(round.number)}</a>,
    },
    {
      head: "Phase",
      cell: (round) => (
        <Hint text={round.reason && REASON_TEXTS[round.reason]}>
          <StateTag state={round.phase} text={round.reason ? words(round.reason) : undefined} />
        </Hint>
      ),
    },
    {
      head: "Cohort",
      cell: (round) => (round.cohort > 0 ? <CohortBar round={round} /> : UNKNOWN),
      title: "reported of selected; the line is the minimum",
    },
    {
      head: "Lost",
      number: true,
      wide: true,
      key: "lost",
      title: "rejected, failed, or not back in time; spares are not lost",
      cell: (round) => lost(round),
    },
    { head: "Took", number: true, key: "took", cell: (round) => duration(roundMs(round)) },
    {
      head: "Training loss",
      number: true,
      wide: true,
      key: "training_loss",
      cell: (round) => real(round.training_loss),
    },
    { head: "Loss", number: true, key: "loss", cell: (round) => real(round.loss) },
    {
      head: "Accuracy",
      number: true,
      key: "accuracy",
      cell: (round) => <Measured accuracy={round.accuracy} on={round.measured_on} />,
    },
    {
      head: "Step norm",
      number: true,
      wide: true,
      title: "L2 norm of what the round changed",
      cell: (round) => real(round.step_norm),
    },
    { head: "Up", number: true, wide: true, key: "up", cell: (round) => bytes(round.bytes_up) },
    { head: "Opened", zoned: true, number: true, cell: (round) => <When at={round.opened_at_ms} /> },
  ];
  return task === "train" ? columns : columns.filter(({ head }) => head !== "Training loss" && head !== "Step norm");
}

/** Accuracy, or else the loss. */
function resultOf({ accuracy, loss, training_loss: training }: Round): string {
  if (accuracy !== undefined) return percent(accuracy);
  const found = loss ?? training;
  return found === undefined ? UNKNOWN : `loss ${real(found)}`;
}

/** Two lines per round: number, state and accuracy; cohort and time. */
function phoneColumns(job: string): Column<Round>[] {
  return [
    {
      head: "Round",
      name: true,
      cell: (round) => (
        <span class="two-lines">
          <span class="one-line">
            <a href={links.round(job, round.number, round.task)}>{count(round.number)}</a>
            <StateTag state={round.phase} text={round.reason ? words(round.reason) : undefined} />
          </span>
          {round.cohort > 0 ? <CohortBar round={round} /> : <small class="quiet">no cohort</small>}
        </span>
      ),
    },
    {
      head: "Result",
      number: true,
      cell: (round) => (
        <span class="two-lines">
          <b>{resultOf(round)}</b>
          <small class="quiet">{duration(roundMs(round))}</small>
        </span>
      ),
    },
  ];
}

function lost(round: Round) {
  const { rejected, failed, expired, spare } = counts(round);
  const text = `${rejected} rejected, ${failed} failed, ${expired} not back in time; ${plural(spare, "spare")}`;
  return <Hint text={text}>{count(rejected + failed + expired)}</Hint>;
}

/** The rounds of a job. `brief` shows the latest ones without filters and pages. */
export function JobRounds({ job, brief = false }: { job: Job; brief?: boolean }) {
  const { query } = useLocation();
  const { api, notify } = useConnection();
  const filter = {
    task: (brief ? undefined : query.get("task")) ?? "train",
    phase: (brief ? undefined : query.get("phase")) ?? "",
    reason: (brief ? undefined : query.get("reason")) ?? "",
    sort: (brief ? undefined : query.get("sort")) ?? "number",
    order: (brief ? undefined : query.get("order")) ?? "desc",
  };
  const narrow = useNarrow();
  const paging = usePaging(JSON.stringify(filter));
  const limit = brief ? 10 : PAGE;
  // A page in the middle does not change by itself; the first one does.
  const live = (event: FeedEvent) => paging.page === 1 && endsSomething(job.id)(event);
  const sort = filter.sort === "number" ? undefined : filter.sort;
  const asked = { ...filter, sort, limit, after: paging.after };
  const rounds = useResource<Page<Round>>(`jobs/${job.id}/rounds`, asked, { live });
  const sortBy = (key: string, order: string) =>
    setQuery({ sort: key === "number" ? undefined : key, order: order === "desc" ? undefined : order });
  const present = `${filter.sort} ${filter.order}`;
  const save = (format: "csv" | "json") => () =>
    download(api, `jobs/${job.id}/metrics`, `${job.file.name}-rounds.${format}`, { format }).catch((error: Error) =>
      notify(error.message, "bad"),
    );
  const set = (name: string, usual: string) => (value: string) =>
    setQuery({ [name]: value === usual ? undefined : value });

  const actions = brief ? (
    <a class="button small" href={links.job(job.id, "rounds")}>
      All rounds
    </a>
  ) : (
    <>
      <button type="button" class="small" onClick={save("csv")}>
        CSV
      </button>
      <button type="button" class="small" onClick={save("json")}>
        JSON
      </button>
    </>
  );
  return (
    <Panel
      title={brief ? "Latest rounds" : "Rounds"}
      actions={actions}
      hint={brief ? undefined : plural(job.rounds_opened, "round")}
    >
      {!brief && (
        <div class="filters">
          <Choice
            label="Task"
            value={filter.task}
            onChange={set("task", "train")}
            options={[
              { value: "train", label: "training" },
              { value: "evaluate", label: "evaluation" },
            ]}
          />
          <Choice
            label="Phase"
            value={filter.phase}
            onChange={set("phase", "")}
            options={[{ value: "", label: "any" }, "selecting", "training", "aggregating", "committed", "abandoned"]}
          />
          <Choice
            label="Reason"
            value={filter.reason}
            onChange={set("reason", "")}
            options={[
              { value: "", label: "any" },
              ...REASONS.map((reason) => ({ value: reason, label: words(reason) })),
            ]}
          />
          <Choice
            label="Order"
            value={present}
            onChange={(value) => sortBy(...(value.split(" ") as [string, string]))}
            options={
              ORDERS.some(({ value }) => value === present)
                ? ORDERS
                : [...ORDERS, { value: present, label: "by a head" }]
            }
          />
        </div>
      )}
      {rounds.data ? (
        <>
          <Table
            label="Rounds"
            class={narrow ? "phone-rows" : ""}
            columns={narrow ? phoneColumns(job.id) : columnsOf(job.id, filter.task)}
            rows={rounds.data.items}
            rowKey={(round) => `${round.task}-${round.number}`}
            stale={rounds.stale}
            server={
              brief
                ? undefined
                : {
                    key: filter.sort,
                    descending: filter.order === "desc",
                    onSort: (key, descending) => sortBy(key, descending ? "desc" : "asc"),
                  }
            }
            empty={<NoRounds filtered={filter.phase !== "" || filter.reason !== ""} />}
          />
          {!brief && <Pager paging={paging} next={rounds.data.next} />}
        </>
      ) : (
        <Pending resource={rounds} lines={brief ? 6 : 12} what="The list of rounds" />
      )}
    </Panel>
  );
}

/** Says why the table is empty: no round passes the filters, or none was opened. */
function NoRounds({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="No round matches">Remove a filter to see more.</Empty>
  ) : (
    <Empty
      title="No round yet"
      command="TRIBUTARY_TOKEN=ENROLMENT_TOKEN tributary client run --state-dir client-1 --csv examples.csv"
    >
      The first one opens as soon as clients check in:
    </Empty>
  );
}
