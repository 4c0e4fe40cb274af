// All populations and jobs, with their open rounds.

import type { JobOverview, JobSummary, Overview } from "../api/types";
import { Sparkline } from "../charts/sparkline";
import { bytes, compact, count, percent, plural, real, UNKNOWN } from "../lib/format";
import { links } from "../router";
import { CohortBar } from "../ui/cohort";
import { useMay, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { HealthLine } from "../ui/health";
import { rememberJob } from "../ui/names";
import { Ago, Empty, NotAvailable, Panel, Pending, Stat, Stats, Trouble } from "../ui/parts";
import { useSteadyHeight } from "../ui/steady";
import { type Column, Table } from "../ui/table";
import { FirstSteps, isNew } from "./first-steps";
import { LiveRounds } from "./live-round";
import { UploadModel } from "./upload-model";

/** The first view: populations, jobs that may still run, ended jobs. */
export function OverviewView() {
  const overview = useResource<Overview>("overview", {}, { live: () => true, pollMs: 10_000 });
  const { data } = overview;
  const may = useMay("operator");
  for (const { job } of data?.jobs ?? []) rememberJob(job.id, job.name);
  return (
    <>
      <header class="view-head">
        <h1>Overview</h1>
        {may && (
          <a class="button primary" href={links.newJob()}>
            New job
          </a>
        )}
      </header>
      {data ? (
        <Content data={data} refresh={overview.refresh} />
      ) : (
        <Panel title="Jobs">
          <Pending resource={overview} lines={8} missing={<NotAvailable what="The overview" />} />
        </Panel>
      )}
      {data && overview.error && overview.error.status !== 0 && (
        <Trouble error={overview.error} onRetry={overview.refresh} />
      )}
    </>
  );
}

/** The overview once it is loaded. */
function Content({ data, refresh }: { data: Overview; refresh: () => void }) {
  const open = data.jobs
    .filter(({ job }) => job.state !== "stopped" && job.state !== "completed")
    .toSorted((a, b) => rank(a) - rank(b));
  const ended = data.jobs.filter(({ job }) => job.state === "stopped" || job.state === "completed");
  return (
    <>
      <Populations data={data} />
      {isNew(data) && <FirstSteps data={data} refresh={refresh} />}
      {open.map((entry) => (
        <JobCard key={entry.job.id} entry={entry} />
      ))}
      {ended.length > 0 && <Ended jobs={ended} />}
    </>
  );
}

/** Jobs in trouble come first. Jobs of the same severity keep their order. */
function rank({ health }: JobOverview): number {
  return health.severity === "trouble" ? 0 : health.severity === "warning" ? 1 : 2;
}

/** The populations with their numbers of clients. */
function Populations({ data }: { data: Overview }) {
  const { populations } = data;
  if (populations.length === 0) return null;
  return (
    <ul class="populations" aria-label="Populations">
      {populations.map((population) => (
        <li key={population.name}>
          <a href={links.clients(population.name)}>
            <span class="population-name">{population.name}</span>
            <span class="quiet">{plural(population.clients, "client")}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** A job that may still run: its open rounds and its figures. */
function JobCard({ entry }: { entry: JobOverview }) {
  const { job, open_rounds: rounds, last_round: last } = entry;
  const steady = useSteadyHeight<HTMLDivElement>();
  return (
    <section class="panel job-card" aria-labelledby={`name-${job.id}`}>
      <header class="panel-head">
        <div class="job-title">
          <h2 id={`name-${job.id}`}>
            <a href={links.job(job.id)}>{job.name}</a>
          </h2>
          <StateTag state={job.state} />
          <span class="quiet">{job.population}</span>
        </div>
        <span class="quiet">
          {last ? (
            <>
              last round {last.phase} <Ago at={last.ended_at_ms} />
            </>
          ) : (
            <>
              created <Ago at={job.created_at_ms} />
            </>
          )}
        </span>
      </header>
      <HealthLine health={entry.health} />
      <div class="job-body">
        <div class="job-live" ref={steady}>
          <LiveRounds job={job.id} rounds={rounds} />
          {rounds.length === 0 && <Waiting job={job} />}
        </div>
        <div class="job-figures">
          <Figure
            label="Accuracy"
            value={percent(entry.accuracy)}
            detail={entry.best_accuracy === undefined ? "" : `best ${percent(entry.best_accuracy)}`}
          >
            <Sparkline
              points={entry.spark}
              which={1}
              tone="accent"
              label={`Accuracy over rounds, now ${percent(entry.accuracy)}`}
            />
          </Figure>
          <Figure label="Loss" value={real(entry.loss)} detail="">
            <Sparkline points={entry.spark} which={2} tone="loss" label={`Loss over rounds, now ${real(entry.loss)}`} />
          </Figure>
          <JobStats entry={entry} />
        </div>
      </div>
    </section>
  );
}

/** A large figure above its curve. */
function Figure(props: { label: string; value: string; detail: string; children: preact.ComponentChildren }) {
  return (
    <div class="figure">
      <p class="figure-label">{props.label}</p>
      <p class="figure-value">
        {props.value}
        <small>{props.detail}</small>
      </p>
      {props.children}
    </div>
  );
}

/** Rounds, parameters and traffic of a job. */
function JobStats({ entry }: { entry: JobOverview }) {
  const { job } = entry;
  const goal = job.stop?.rounds;
  return (
    <Stats class="tight">
      <Stat
        label="Rounds"
        value={count(job.rounds_committed)}
        detail={goal === undefined ? undefined : `of ${count(goal)}`}
        title={`${job.rounds_opened} opened, ${job.rounds_committed} committed`}
      />
      <Stat label="Parameters" value={compact(job.parameters)} title={count(job.parameters)} />
      <Stat label="Up" value={bytes(entry.bytes_up)} />
      <Stat label="Down" value={bytes(entry.bytes_down)} />
    </Stats>
  );
}

/** Why a job has no open round, and what would open one. */
export function Waiting({
  job,
}: {
  job: Pick<JobSummary, "id" | "name" | "population" | "state" | "rounds_not_before_ms">;
}) {
  switch (job.state) {
    case "awaiting_model":
      return <UploadModel job={job.id} name={job.name} />;
    case "paused":
      return (
        <Empty title="Paused" command={`tributary job resume ${job.name}`}>
          No round opens until it is resumed.
        </Empty>
      );
    case "running":
      return job.rounds_not_before_ms === undefined ? (
        <Empty title="Between two rounds">The next one opens in a moment.</Empty>
      ) : (
        <Empty title="The next round is not due yet">
          It may open <Ago at={job.rounds_not_before_ms} />. The job's schedule sets this time, or the pause after
          abandoned rounds.
        </Empty>
      );
    default:
      return (
        <Empty title={job.state === "completed" ? "Completed" : "Stopped"}>No further rounds. The models stay.</Empty>
      );
  }
}

const ENDED: readonly Column<JobOverview>[] = [
  { head: "Job", name: true, cell: ({ job }) => <a href={links.job(job.id)}>{job.name}</a> },
  { head: "State", cell: ({ job }) => <StateTag state={job.state} /> },
  { head: "Population", wide: true, cell: ({ job }) => job.population },
  { head: "Rounds", number: true, cell: ({ job }) => count(job.rounds_committed) },
  { head: "Accuracy", number: true, cell: (entry) => percent(entry.accuracy ?? entry.best_accuracy) },
  { head: "Loss", number: true, wide: true, cell: (entry) => real(entry.loss) },
  { head: "Up", number: true, wide: true, cell: (entry) => bytes(entry.bytes_up) },
  { head: "Last cohort", wide: true, cell: ({ last_round: last }) => (last ? <CohortBar round={last} /> : UNKNOWN) },
  { head: "Ended", number: true, cell: ({ job }) => <Ago at={job.ended_at_ms} /> },
];

/** The jobs that are completed or stopped, as a table. */
function Ended({ jobs }: { jobs: readonly JobOverview[] }) {
  return (
    <Panel title="Ended jobs">
      <Table label="Ended jobs" columns={ENDED} rows={jobs} rowKey={({ job }) => job.id} />
    </Panel>
  );
}
