// One job: its open rounds, curves, rounds, sessions, models and file; and its controls.

import { useEffect, useRef } from "preact/hooks";
import type { Assignment, Cell, Job, Page, Round } from "../api/types";
import { counted } from "../lib/cohort";
import { endsSomething, ofJob } from "../lib/events";
import { links, useLocation } from "../router";
import { useResource } from "../ui/connection";
import { HealthLines, isUndriven } from "../ui/health";
import { rememberJob } from "../ui/names";
import { Empty, Panel, Pending } from "../ui/parts";
import { useSteadyHeight } from "../ui/steady";
import { AnswersPanel } from "./job-answers";
import { JobCurves } from "./job-curves";
import { JobFileView } from "./job-file";
import { JobHead } from "./job-head";
import { JobMetrics } from "./job-metrics";
import { JobModels } from "./job-models";
import { PrivacyPanel } from "./job-privacy";
import { JobReleases } from "./job-releases";
import { JobRounds } from "./job-rounds";
import { JobSessions } from "./job-sessions";
import { JobSites } from "./job-sites";
import { LiveRound, LiveRounds } from "./live-round";
import { OutlookPanel } from "./outlook";
import { Waiting } from "./overview";

const TABS = [
  ["progress", "Progress"],
  ["rounds", "Rounds"],
  ["sessions", "Sessions"],
  ["models", "Models"],
  ["file", "Job file"],
] as const;

/** The health lines count down while a job waits, without events. */
const HEALTH_MS = 10_000;

/** A job with its parts as tabs. */
export function JobView({ id }: { id: string }) {
  const { query } = useLocation();
  const job = useResource<Job>(`jobs/${id}`, {}, { live: endsSomething(id), pollMs: HEALTH_MS });
  const tab = query.get("tab") ?? "progress";
  const { data } = job;
  const tabs = useRef<HTMLElement>(null);
  useEffect(() => {
    if (tabs.current) centre(tabs.current);
  }, [tab, data === undefined]);
  if (!data) {
    return (
      <>
        <h1>Job</h1>
        <Panel title={job.error?.missing ? "Not found" : "State"}>
          <Pending
            resource={job}
            lines={10}
            missing={
              <Empty title="This coordinator has no such job" command="tributary job list">
                It was deleted, or belongs to another coordinator.
              </Empty>
            }
          />
        </Panel>
      </>
    );
  }
  rememberJob(data.id, data.file.name);
  return (
    <>
      <JobHead job={data} changed={job.refresh} />
      {data.health && <HealthLines health={data.health} />}
      <nav ref={tabs} class="tabs" aria-label="Parts of the job">
        {TABS.map(([name, label]) => (
          <a
            key={name}
            href={links.job(id, name === "progress" ? undefined : name)}
            aria-current={tab === name ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      {tab === "progress" && <Progress job={data} />}
      {tab === "rounds" && (
        <>
          <JobRounds job={data} />
          <OutlookPanel job={data} changed={job.refresh} />
        </>
      )}
      {tab === "sessions" && <JobSessions job={data} />}
      {tab === "models" && (
        <>
          <JobModels job={data} />
          <JobReleases job={data} />
        </>
      )}
      {tab === "file" && <JobFileView job={data} />}
    </>
  );
}

/** Scrolls a row of tabs to the present one. `scrollIntoView` would scroll the page, too. */
function centre(row: HTMLElement): void {
  const present = row.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!present) return;
  const { left, width } = row.getBoundingClientRect();
  row.scrollLeft += present.left + present.width / 2 - (left + width / 2);
}

/** The first tab: open rounds, curves, latest rounds. */
function Progress({ job }: { job: Job }) {
  return (
    <>
      {job.state !== "stopped" && job.state !== "completed" && <OpenRounds job={job} />}
      {job.file.evaluation?.only ? (
        <JobSites job={job} />
      ) : job.file.analysis ? (
        <AnswersPanel job={job} />
      ) : (
        <JobCurves job={job} />
      )}
      {job.file.privacy && <PrivacyPanel job={job} />}
      {!job.file.analysis && <JobMetrics job={job} />}
      {!job.file.evaluation?.only && <JobRounds job={job} brief />}
    </>
  );
}

/** The open rounds of the job, or what it waits for. */
function OpenRounds({ job }: { job: Job }) {
  const live = ofJob(job.id);
  const training = useResource<Page<Round>>(`jobs/${job.id}/rounds`, { order: "desc", limit: 1 }, { live });
  const evaluating = useResource<Page<Round>>(
    `jobs/${job.id}/rounds`,
    { order: "desc", limit: 1, task: "evaluate" },
    { live },
  );
  const steady = useSteadyHeight<HTMLDivElement>();
  const isOpen = (round: Round) => round.phase !== "committed" && round.phase !== "abandoned";
  const open = [...(training.data?.items ?? []), ...(evaluating.data?.items ?? [])].filter(isOpen);
  return (
    <Panel title="Now" class="now-panel">
      <div class="job-live" ref={steady}>
        {open
          .filter(({ task }) => task === "train")
          .map((round) => (
            <OpenRound key={round.number} job={job.id} round={round} undriven={isUndriven(job.health)} />
          ))}
        <LiveRounds
          job={job.id}
          rounds={open.filter(({ task }) => task === "evaluate")}
          undriven={isUndriven(job.health)}
        />
        {open.length === 0 && training.data && (
          <Waiting
            job={{
              id: job.id,
              name: job.file.name,
              population: job.file.population,
              state: job.state,
              ...(job.rounds_not_before_ms === undefined ? {} : { rounds_not_before_ms: job.rounds_not_before_ms }),
            }}
          />
        )}
        {!training.data && <Pending resource={training} lines={4} what="The round" />}
      </div>
    </Panel>
  );
}

/** An open training round with its clients as cells, which the list of rounds does not contain. */
function OpenRound({ job, round, undriven }: { job: string; round: Round; undriven: boolean }) {
  const { number, task } = round;
  const assignments = useResource<Page<Assignment>>(
    `jobs/${job}/rounds/${number}/assignments`,
    { task, limit: 500 },
    { live: (event) => event.job === job && event.round === number },
  );
  const cells: Cell[] = (assignments.data?.items ?? []).map((entry) => ({
    number: entry.client_number,
    state: entry.state,
    ...(entry.reason === undefined ? {} : { reason: entry.reason }),
  }));
  return <LiveRound job={job} round={counted(round, cells)} undriven={undriven} />;
}
