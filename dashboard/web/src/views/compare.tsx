// Jobs side by side: their curves over each other, their results, and the settings that differ.

import { Fragment } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import type { Curve, Job } from "../api/types";
import { LinePlot } from "../charts/line-plot";
import { AXES, type Axis, type Measure, overlaid } from "../lib/curve";
import { bytes, count, duration, percent, real, spreadOf, sureness, UNKNOWN } from "../lib/format";
import { differences } from "../lib/settings";
import { links, useLocation } from "../router";
import { useConnection } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { Measured } from "../ui/measured";
import { rememberJob } from "../ui/names";
import { Empty, Panel, Tags, Trouble } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { percentTicks, useAxis, X_FORMATS } from "./job-curves";
import { COMPARED_MAX } from "./job-table";

/** Each job has a colour and, from the fifth on, a dashed line. */
const COLOURS = ["--accent", "--vermilion", "--blue", "--purple", "--amber"];

interface Compared {
  job: Job;
  curve: Curve;
}

/** The comparison of the jobs in the address: `#/compare?jobs=a,b`. */
export function CompareView() {
  const { query } = useLocation();
  const ids = (query.get("jobs") ?? "").split(",").filter(Boolean).slice(0, COMPARED_MAX);
  const { entries, error } = useCompared(ids);
  return (
    <>
      <header class="view-head">
        <div>
          <p class="crumbs">
            <a href={links.overview()}>Overview</a>
          </p>
          <h1>Compare jobs</h1>
        </div>
      </header>
      {ids.length < 2 && (
        <Panel title="Nothing to compare">
          <Empty title="A comparison needs two jobs">
            <a href={links.overview()}>Tick them in the table of the overview</a>
          </Empty>
        </Panel>
      )}
      {error && <Trouble error={error} />}
      {entries && entries.length > 0 && (
        <>
          <Curves entries={entries} />
          <Results entries={entries} />
          <Settings entries={entries} />
        </>
      )}
    </>
  );
}

/** The jobs with their curves; undefined until all are there. */
function useCompared(ids: readonly string[]): { entries: Compared[] | undefined; error: ApiError | undefined } {
  const { api } = useConnection();
  const key = ids.join();
  const [state, set] = useState<{ entries?: Compared[]; error?: ApiError }>({});
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    const load = async (id: string): Promise<Compared> => {
      const [job, curve] = await Promise.all([
        api.json<Job>(`jobs/${id}`, { signal }),
        api.json<Curve>(`jobs/${id}/curve`, { query: { points: 400 }, signal }),
      ]);
      rememberJob(job.id, job.file.name);
      return { job, curve };
    };
    Promise.all(key ? key.split(",").map(load) : []).then(
      (entries) => !signal.aborted && set({ entries }),
      (error: unknown) => {
        if (signal.aborted) return;
        set({ error: error instanceof ApiError ? error : new ApiError(0, "The answer does not parse", String(error)) });
      },
    );
    return () => abort.abort();
  }, [api, key]);
  return { entries: state.entries, error: state.error };
}

/** Accuracy and loss of all jobs against one axis. */
function Curves({ entries }: { entries: readonly Compared[] }) {
  const { axis, switcher } = useAxis();
  const shared = {
    xTitle: AXES.find((entry) => entry.axis === axis)!.title,
    xFormat: X_FORMATS[axis],
    xTime: axis === "wall" || axis === "clients",
    xWhole: axis === "round",
    sync: "compare",
  };
  const accuracy = useOverlaid(entries, axis, ["accuracy"]);
  const loss = useOverlaid(entries, axis, ["loss", "training_loss"]);
  return (
    <Panel title="Learning curves" actions={switcher} class="curves-panel">
      <div class="plots">
        <LinePlot
          {...shared}
          title="Accuracy"
          yTitle="Accuracy, %"
          data={accuracy}
          yRange={[0, 1]}
          yTicks={percentTicks}
          lines={linesOf(entries, (value) => percent(value, 2))}
          description={describe(entries)}
        />
        <LinePlot
          {...shared}
          title="Loss"
          yTitle="Loss"
          yLog
          data={loss}
          yRange={[0, undefined]}
          lines={linesOf(entries, real)}
          description={`Loss of ${entries.map(({ job }) => job.file.name).join(", ")}.`}
        />
      </div>
    </Panel>
  );
}

function useOverlaid(entries: readonly Compared[], axis: Axis, measures: readonly Measure[]): (number | null)[][] {
  return useMemo(
    () =>
      overlaid(
        entries.map(({ curve }) => curve.points),
        axis,
        measures,
      ),
    [entries, axis],
  );
}

function linesOf(entries: readonly Compared[], format: (value: number) => string) {
  return entries.map(({ job }, index) => ({
    label: job.file.name,
    colour: COLOURS[index % COLOURS.length]!,
    dashed: index >= COLOURS.length,
    format,
  }));
}

function describe(entries: readonly Compared[]): string {
  const parts = entries.map(({ job }) => {
    const best = job.progress?.best;
    return `${job.file.name}: ${best ? `best ${percent(best.accuracy)} in round ${best.round}` : "not measured"}`;
  });
  return `${parts.join("; ")}.`;
}

/** The results of each job in a column. */
function Results({ entries }: { entries: readonly Compared[] }) {
  const rows: { name: string; cells: preact.ComponentChildren[] }[] = [
    { name: "Job", cells: entries.map(({ job }) => <JobLink key={job.id} job={job} />) },
    { name: "State", cells: entries.map(({ job }) => <StateTag key={job.id} state={job.state} />) },
    { name: "Rounds", cells: entries.map(({ job }) => count(job.rounds_committed)) },
    {
      name: "Accuracy",
      cells: entries.map(({ job }) => (
        <Measured key={job.id} accuracy={job.progress?.accuracy} on={job.progress?.measured_on} />
      )),
    },
    { name: "Clients", cells: entries.map(({ job }) => spreadOf(job.progress?.measured_on) ?? UNKNOWN) },
    { name: "Best", cells: entries.map((entry) => <Best key={entry.job.id} entry={entry} entries={entries} />) },
    { name: "Loss", cells: entries.map(({ job }) => real(job.progress?.loss)) },
    { name: "Bytes up", cells: entries.map(({ job }) => bytes(job.progress?.bytes_up)) },
    { name: "Bytes down", cells: entries.map(({ job }) => bytes(job.progress?.bytes_down)) },
    { name: "Client work", cells: entries.map(({ curve }) => duration(curve.points.at(-1)?.clients_ms)) },
    { name: "Time", cells: entries.map(({ curve }) => duration(curve.points.at(-1)?.wall_ms)) },
    { name: "Tags", cells: entries.map(({ job }) => <Tags key={job.id} tags={job.tags} />) },
  ];
  return (
    <Panel title="Results">
      <Table label="Results of the jobs" columns={columnsOf(entries)} rows={rows} rowKey={(row) => row.name} />
    </Panel>
  );
}

function JobLink({ job }: { job: Job }) {
  return (
    <>
      <a href={links.job(job.id)}>{job.file.name}</a> <small class="quiet">{job.file.population}</small>
    </>
  );
}

/** The best accuracy of a job, marked when no other has a higher lower bound; without accuracies, its lowest loss. */
function Best({ entry, entries }: { entry: Compared; entries: readonly Compared[] }) {
  const best = entry.job.progress?.best;
  if (!best) return <>{UNKNOWN}</>;
  const sure = ({ job }: Compared) => job.progress?.best?.measured_on?.low ?? Number.NEGATIVE_INFINITY;
  const top = Math.max(...entries.map(sure));
  const text = best.accuracy === undefined ? `loss ${real(best.loss)}` : percent(best.accuracy, 2);
  return (
    <span class={best.accuracy !== undefined && sure(entry) === top ? "best-of-all" : ""}>
      <span data-tip={sureness(best.measured_on)}>{text}</span>{" "}
      <a href={links.round(entry.job.id, best.round)}>in round {count(best.round)}</a>
    </span>
  );
}

/** The settings that are not the same in all jobs. */
function Settings({ entries }: { entries: readonly Compared[] }) {
  const rows = differences(entries.map(({ job }) => job.file)).map(({ key, values }) => ({
    name: key,
    cells: values.map((value) =>
      value === undefined ? <span class="quiet">(none)</span> : <code data-tip={value}>{value}</code>,
    ),
  }));
  return (
    <Panel title="Settings that differ" hint="all others are the same">
      <Table
        label="Settings that differ"
        class="settings-table"
        columns={columnsOf(entries)}
        rows={rows}
        rowKey={(row) => row.name}
        empty={<Empty title="All settings are the same" />}
      />
    </Panel>
  );
}

/** A name such as `round.deadline_ms`, which may break after a dot or an underscore. */
function Breakable({ name }: { name: string }) {
  return (
    <>
      {name.split(/(?<=[._])/).map((part, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </>
  );
}

function columnsOf(
  entries: readonly Compared[],
): Column<{ name: string; cells: readonly preact.ComponentChildren[] }>[] {
  return [
    { head: "", name: true, cell: (row) => <Breakable name={row.name} /> },
    ...entries.map(({ job }, index) => ({
      head: entries.some((other) => other.job.id !== job.id && other.job.file.name === job.file.name)
        ? `${job.file.population}/${job.file.name}`
        : job.file.name,
      cell: (row: { cells: readonly preact.ComponentChildren[] }) => row.cells[index],
    })),
  ];
}
