// The jobs as a dense table: sorted by its heads, filtered by words and state, ticked for a comparison.

import { useEffect, useState } from "preact/hooks";
import type { JobOverview } from "../api/types";
import { Sparkline } from "../charts/sparkline";
import { briefly, bytes, count, duration, percent, plural, real, short, sureness, UNKNOWN } from "../lib/format";
import { passes, rank } from "../lib/jobs";
import { KEYS_HELP } from "../lib/keys";
import { codecName } from "../lib/settings";
import { links, setQuery, useLocation } from "../router";
import { Glyph, StateTag } from "../ui/glyph";
import { Measured } from "../ui/measured";
import { useNarrow } from "../ui/narrow";
import { Ago, Choice, Empty, Hint, Panel, Tags } from "../ui/parts";
import { type Column, Table } from "../ui/table";

/** The search starts when typing pauses for so long, in milliseconds. */
const TYPING_MS = 300;
/** Curves beyond these cannot be told apart. */
export const COMPARED_MAX = 8;

/** Jobs in an answer of the coordinator. */
const LISTED_MAX = 100;

const STATES = [
  { value: "", label: "any" },
  { value: "open", label: "open" },
  { value: "ended", label: "ended" },
  ...["running", "relaying", "paused", "awaiting_model", "completed", "stopped"].map((value) => ({
    value,
    label: value.replace("_", " "),
  })),
];

/** The table with its filters. `archived`: the archived jobs are among them. */
export function JobTable({ jobs, archived }: { jobs: readonly JobOverview[]; archived: boolean }) {
  const { query } = useLocation();
  const text = query.get("search") ?? "";
  const state = query.get("state") ?? "";
  const [ticked, tick] = useState<readonly string[]>([]);
  const narrow = useNarrow();
  const shown = jobs.filter((entry) => passes(entry, { text, state }));
  const chosen = ticked.filter((id) => jobs.some(({ job }) => job.id === id));
  const set = (id: string, on: boolean) => tick(on ? [...chosen, id] : chosen.filter((other) => other !== id));
  const hint =
    shown.length === jobs.length ? plural(jobs.length, "job") : `${shown.length} of ${plural(jobs.length, "job")}`;
  const cut = jobs.length >= LISTED_MAX ? `; the newest ${LISTED_MAX} are listed` : "";
  return (
    <Panel title="Jobs" hint={hint + cut} actions={<Compare chosen={chosen} />}>
      <Filters text={text} state={state} archived={archived} />
      <Table
        label="Jobs"
        class={narrow ? "phone-rows" : "job-table"}
        columns={narrow ? phoneColumns(chosen, set) : columns(chosen, set)}
        rows={shown}
        rowKey={({ job }) => job.id}
        empty={
          <Empty title="No job matches">
            <a href={links.overview()}>Show all jobs</a>
          </Empty>
        }
      />
    </Panel>
  );
}

/** The way to the comparison of the ticked jobs. */
function Compare({ chosen }: { chosen: readonly string[] }) {
  const ready = chosen.length >= 2 && chosen.length <= COMPARED_MAX;
  const label = chosen.length === 0 ? "Tick jobs to compare them" : `Compare ${plural(chosen.length, "job")}`;
  return (
    <a
      class={`button small ${ready ? "primary" : ""}`}
      aria-disabled={!ready}
      href={ready ? links.compare(chosen) : undefined}
    >
      {chosen.length > COMPARED_MAX ? `At most ${COMPARED_MAX} jobs` : label}
    </a>
  );
}

function Filters({ text, state, archived }: { text: string; state: string; archived: boolean }) {
  const [typed, type] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => typed !== text && setQuery({ search: typed.trim() || undefined }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  // A link has changed the address.
  useEffect(() => {
    if (typed.trim() !== text) type(text);
  }, [text]);
  return (
    <div class="filters">
      <label class="choice grow">
        <span>Search</span>
        <input
          type="search"
          aria-keyshortcuts="/"
          data-tip={KEYS_HELP}
          value={typed}
          placeholder="name, tag, population or notes"
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
      <Choice
        label="State"
        value={state}
        options={STATES}
        onChange={(value) => setQuery({ state: value || undefined })}
      />
      <label class="check-line filter-check">
        <input
          type="checkbox"
          checked={archived}
          onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : undefined })}
        />
        archived jobs
      </label>
    </div>
  );
}

/** The box that ticks a job for the comparison. */
function ticks(chosen: readonly string[], set: (id: string, on: boolean) => void): Column<JobOverview> {
  return {
    head: "",
    cell: ({ job }) => (
      <input
        type="checkbox"
        aria-label={`Compare ${job.name}`}
        checked={chosen.includes(job.id)}
        onChange={(event) => set(job.id, event.currentTarget.checked)}
      />
    ),
  };
}

/** Two lines per job: name and accuracy; state and rounds. */
function phoneColumns(chosen: readonly string[], set: (id: string, on: boolean) => void): Column<JobOverview>[] {
  return [
    ticks(chosen, set),
    {
      head: "Job",
      name: true,
      sort: ({ job }) => job.name,
      cell: (entry) => (
        <span class="two-lines">
          <a href={links.job(entry.job.id)}>{entry.job.name}</a>
          <State entry={entry} />
        </span>
      ),
    },
    {
      head: "Accuracy",
      number: true,
      sort: (entry) => entry.accuracy,
      cell: (entry) => (
        <span class="two-lines">
          <b>{percent(entry.accuracy)}</b>
          <small class="quiet">{briefly(entry.measured_on) ?? plural(entry.job.rounds_committed, "round")}</small>
        </span>
      ),
    },
  ];
}

function columns(chosen: readonly string[], set: (id: string, on: boolean) => void): Column<JobOverview>[] {
  return [
    ticks(chosen, set),
    { head: "Job", name: true, sort: ({ job }) => job.name, cell: (entry) => <Name entry={entry} /> },
    { head: "State", sort: rank, cell: (entry) => <State entry={entry} /> },
    {
      head: "Accuracy",
      number: true,
      sort: (entry) => entry.accuracy,
      cell: (entry) => <Accuracy entry={entry} />,
    },
    {
      head: "Best",
      number: true,
      sort: (entry) => entry.best_measured_on?.low ?? entry.best_accuracy,
      title: "the version whose accuracy has the highest lower bound, and its round",
      cell: (entry) => <Best entry={entry} />,
    },
    { head: "Loss", number: true, wide: true, sort: (entry) => entry.loss, cell: (entry) => real(entry.loss) },
    {
      head: "Rounds",
      number: true,
      sort: ({ job }) => job.rounds_committed,
      title: "committed rounds, of those that the job wants",
      cell: ({ job }) => (
        <>
          {count(job.rounds_committed)}
          {job.stop?.rounds !== undefined && <span class="quiet">/{count(job.stop.rounds)}</span>}
        </>
      ),
    },
    {
      head: "Left",
      number: true,
      wide: true,
      sort: (entry) => entry.ends_in_ms,
      title: "time until the last round, at the pace of the last ones",
      cell: (entry) => duration(entry.ends_in_ms),
    },
    {
      head: "Rate",
      number: true,
      wide: true,
      sort: ({ job }) => job.learning_rate,
      title: "learning rate of the clients",
      cell: ({ job }) => short(job.learning_rate),
    },
    {
      head: "Codec",
      wide: true,
      sort: ({ job }) => codecName(job.codec),
      cell: ({ job }) => codecName(job.codec) ?? UNKNOWN,
    },
    { head: "Up", number: true, wide: true, sort: (entry) => entry.bytes_up, cell: (entry) => bytes(entry.bytes_up) },
    {
      head: "Created",
      number: true,
      wide: true,
      sort: ({ job }) => job.created_at_ms,
      cell: ({ job }) => <Ago at={job.created_at_ms} />,
    },
  ];
}

function Name({ entry: { job } }: { entry: JobOverview }) {
  return (
    <span class="job-name">
      <span class="job-name-line">
        <a href={links.job(job.id)}>{job.name}</a>
        {job.notes && (
          <Hint text={job.notes}>
            <span class="chip">note</span>
          </Hint>
        )}
        <Tags tags={job.tags} />
      </span>
      <small class="quiet">{job.population}</small>
    </span>
  );
}

/** The state of the job, and what is wrong with it. */
function State({ entry: { job, health } }: { entry: JobOverview }) {
  const bad = health.filter(({ severity }) => severity === "trouble" || severity === "warning");
  const first = bad[0];
  const told = bad.map(({ text, remedy }) => (remedy ? `${text} What helps: ${remedy}.` : text)).join(" ");
  return (
    <span class="job-state">
      <StateTag state={job.state} text={job.archived_at_ms === undefined ? undefined : `${job.state}, archived`} />
      {first && (
        <Hint text={told}>
          <span class="health-chip">
            <Glyph state={first.severity} />
            {first.kind.replaceAll("_", " ")}
            {bad.length > 1 && ` +${bad.length - 1}`}
          </span>
        </Hint>
      )}
    </span>
  );
}

function Accuracy({ entry }: { entry: JobOverview }) {
  return (
    <span class="with-spark">
      <Sparkline
        points={entry.spark}
        which={1}
        tone="accent"
        label={`Accuracy, now ${percent(entry.accuracy)}`}
        small
      />
      <Measured accuracy={entry.accuracy} on={entry.measured_on} />
    </span>
  );
}

function Best({ entry }: { entry: JobOverview }) {
  const { job, best_accuracy: best, best_round: round, best_measured_on: on } = entry;
  if (best === undefined) return <>{UNKNOWN}</>;
  return (
    <>
      <span data-tip={sureness(on)}>{percent(best)}</span>
      {round !== undefined && (
        <small>
          {" "}
          <a href={links.round(job.id, round)} aria-label={`@${count(round)}, the best round of ${job.name}`}>
            @{count(round)}
          </a>
        </small>
      )}
    </>
  );
}
