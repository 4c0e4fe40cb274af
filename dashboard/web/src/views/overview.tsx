// All populations and jobs, with their open rounds.

import type { JobOverview, JobSummary, Overview, System } from "../api/types";
import { Sparkline } from "../charts/sparkline";
import { bytes, compact, count, duration, percent, plural, presence, real, sureness } from "../lib/format";
import { isEnded, rank } from "../lib/jobs";
import { links, useLocation } from "../router";
import { useMay, useNow, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { HealthLines, isUndriven } from "../ui/health";
import { rememberJob } from "../ui/names";
import { Ago, Empty, NotAvailable, Panel, Pending, Stat, Stats, Trouble } from "../ui/parts";
import { useSteadyHeight } from "../ui/steady";
import { FirstSteps, isNew } from "./first-steps";
import { JobTable } from "./job-table";
import { LiveRounds } from "./live-round";
import { UploadModel } from "./upload-model";

/** The first view: populations, jobs that may still run, ended jobs. */
export function OverviewView() {
  const { query } = useLocation();
  const archived = query.get("archived") === "1";
  const overview = useResource<Overview>(
    "overview",
    { archived: archived ? "true" : undefined },
    { live: () => true, pollMs: 10_000 },
  );
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
        <Content data={data} archived={archived} refresh={overview.refresh} />
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

/** With more jobs than these the table comes first: the cards below it are for those that run. */
const CARDS_FIRST_MAX = 3;
/** Running jobs that are shown as cards. */
const CARDS_MAX = 4;

/** The overview once it is loaded. */
function Content({ data, archived, refresh }: { data: Overview; archived: boolean; refresh: () => void }) {
  // The archive is looked through as a table.
  const running = archived ? [] : data.jobs.filter((entry) => !isEnded(entry) && entry.job.state !== "paused");
  const cards = running
    .toSorted((a, b) => rank(a) - rank(b))
    .slice(0, CARDS_MAX)
    .map((entry) => <JobCard key={entry.job.id} entry={entry} />);
  const table = data.jobs.length > 0 || archived ? <JobTable key="table" jobs={data.jobs} archived={archived} /> : null;
  const tableFirst = data.jobs.length > CARDS_FIRST_MAX;
  return (
    <>
      <Populations data={data} />
      {isNew(data) && <FirstSteps data={data} refresh={refresh} />}
      {tableFirst && table}
      {cards}
      {!tableFirst && table}
    </>
  );
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
            <span class="quiet">
              {plural(population.clients, "client")}
              {(population.online ?? 0) > 0 && `: ${presence(population.online ?? 0, population.working ?? 0)}`}
            </span>
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
      <HealthLines health={entry.health} />
      <div class="job-body">
        <div class="job-live" ref={steady}>
          <LiveRounds job={job.id} rounds={rounds} undriven={isUndriven(entry.health)} />
          {rounds.length === 0 && <Waiting job={job} />}
        </div>
        <div class="job-figures">
          {entry.spark.length > 0 && <Curves entry={entry} />}
          <JobStats entry={entry} />
        </div>
      </div>
    </section>
  );
}

/** Accuracy and loss with their curves. */
function Curves({ entry }: { entry: JobOverview }) {
  return (
    <>
      <Figure
        label="Accuracy"
        value={percent(entry.accuracy)}
        detail={entry.best_accuracy === undefined ? "" : `best ${percent(entry.best_accuracy)}`}
        note={sureness(entry.measured_on)}
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
    </>
  );
}

/** A large figure above its curve. */
function Figure(props: {
  label: string;
  value: string;
  detail: string;
  /** Below the curve. */
  note?: string | undefined;
  children: preact.ComponentChildren;
}) {
  return (
    <div class="figure">
      <p class="figure-label">{props.label}</p>
      <p class="figure-value">
        {props.value}
        <small>{props.detail}</small>
      </p>
      {props.children}
      {props.note && <p class="figure-note">{props.note}</p>}
    </div>
  );
}

/** Rounds, parameters and traffic of a job. */
function JobStats({ entry }: { entry: JobOverview }) {
  const { job } = entry;
  const goal = job.stop?.rounds;
  const left = entry.ends_in_ms === undefined ? "" : `; about ${duration(entry.ends_in_ms)} left`;
  return (
    <Stats class="tight">
      <Stat
        label="Rounds"
        value={count(job.rounds_committed)}
        detail={goal === undefined ? undefined : `of ${count(goal)}`}
        title={`${job.rounds_opened} opened, ${job.rounds_committed} committed${left}`}
      />
      <Stat label="Parameters" value={compact(job.parameters)} title={count(job.parameters)} />
      <Stat label="Up" value={bytes(entry.bytes_up)} />
      <Stat label="Down" value={bytes(entry.bytes_down)} />
    </Stats>
  );
}

/** The parent of this relay, by its address for those who may see the system. */
function Parent() {
  const system = useResource<System>("system");
  return <>{system.data?.parent ?? "the parent of this relay"}</>;
}

/** Why a job has no open round, and what would open one. */
export function Waiting({
  job,
}: {
  job: Pick<JobSummary, "id" | "name" | "population" | "state" | "rounds_not_before_ms">;
}) {
  // A pause that is over is none: the next answer has the open round.
  const now = useNow(1000);
  switch (job.state) {
    case "awaiting_model":
      return <UploadModel job={job.id} name={job.name} />;
    case "relaying":
      return (
        <Empty title="Between two parts">
          The next one comes from <Parent />.
        </Empty>
      );
    case "paused":
      return <Empty title="Paused">No round opens until the job is resumed.</Empty>;
    case "running":
      return job.rounds_not_before_ms === undefined || job.rounds_not_before_ms <= now ? (
        <div class="between">
          <Empty title="Between two rounds">The next one opens in a moment.</Empty>
        </div>
      ) : (
        <Empty title="The next round is not due yet">
          Earliest opening: <Ago at={job.rounds_not_before_ms} />. The job's schedule sets it, or the pause after
          abandoned rounds.
        </Empty>
      );
    default:
      return (
        <Empty title={job.state === "completed" ? "Completed" : "Stopped"}>No further rounds. The models stay.</Empty>
      );
  }
}
