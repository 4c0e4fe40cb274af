// One job: its open rounds, curves, rounds, sessions, models and file; and its controls.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Assignment, Cell, FeedEvent, Job, Page, Round } from "../api/types";
import { counted } from "../lib/cohort";
import { compact, count, plural, shortId } from "../lib/format";
import { links, useLocation } from "../router";
import { useConnection, useMay, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { HealthLine } from "../ui/health";
import { rememberJob } from "../ui/names";
import { Ago, Confirm, Empty, Panel, Pending, Stat, Stats } from "../ui/parts";
import { useSteadyHeight } from "../ui/steady";
import { JobCurves } from "./job-curves";
import { JobFileView } from "./job-file";
import { JobMetrics } from "./job-metrics";
import { JobModels } from "./job-models";
import { JobRounds } from "./job-rounds";
import { JobSessions } from "./job-sessions";
import { LiveRound, LiveRounds } from "./live-round";
import { Waiting } from "./overview";
import { PolicyDialog } from "./policy";

const TABS = [
  ["progress", "Progress"],
  ["rounds", "Rounds"],
  ["sessions", "Sessions"],
  ["models", "Models"],
  ["file", "Job file"],
] as const;

/** Accepts the events of a job, those of single assignments too. */
export function ofJob(job: string): (event: FeedEvent) => boolean {
  return (event) => event.job === job;
}

/** Accepts the events of a job and its rounds, which change curves, tables and models; not those of assignments. */
export function endsSomething(job: string): (event: FeedEvent) => boolean {
  return (event) => event.job === job && event.assignment === undefined;
}

/** The health line counts down while a job waits, without events. */
const HEALTH_MS = 10_000;

/** A job with its parts as tabs. */
export function JobView({ id }: { id: string }) {
  const { query } = useLocation();
  const job = useResource<Job>(`jobs/${id}`, {}, { live: endsSomething(id), pollMs: HEALTH_MS });
  const tab = query.get("tab") ?? "progress";
  const { data } = job;
  const tabs = useRef<HTMLElement>(null);
  // On a phone the row of tabs is wider than the screen.
  useEffect(
    () => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }),
    [tab, data === undefined],
  );
  if (!data) {
    return (
      <Panel title="Job">
        <Pending
          resource={job}
          lines={10}
          missing={
            <Empty title="There is no such job" command="tributary job list">
              It may belong to another coordinator.
            </Empty>
          }
        />
      </Panel>
    );
  }
  rememberJob(data.id, data.file.name);
  return (
    <>
      <JobHead job={data} changed={job.refresh} />
      {data.health && <HealthLine health={data.health} />}
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
      {tab === "rounds" && <JobRounds job={data} />}
      {tab === "sessions" && <JobSessions job={data} />}
      {tab === "models" && <JobModels job={data} />}
      {tab === "file" && <JobFileView job={data} />}
    </>
  );
}

/** The first tab: open rounds, curves, latest rounds. */
function Progress({ job }: { job: Job }) {
  return (
    <>
      <OpenRounds job={job} />
      <JobCurves job={job} />
      <JobMetrics job={job} />
      <JobRounds job={job} brief />
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
            <OpenRound key={round.number} job={job.id} round={round} />
          ))}
        <LiveRounds job={job.id} rounds={open.filter(({ task }) => task === "evaluate")} />
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
function OpenRound({ job, round }: { job: string; round: Round }) {
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
  return <LiveRound job={job} round={counted(round, cells)} />;
}

/** Name, state, figures and controls of a job. `changed` is called after each change that the person made. */
function JobHead({ job, changed }: { job: Job; changed: () => void }) {
  const stop = job.file.stop;
  const goal = [
    stop?.rounds === undefined ? "" : `of ${count(stop.rounds)}`,
    stop?.accuracy === undefined ? "" : `or ${stop.accuracy * 100} %`,
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <header class="view-head job-head">
      <div>
        <p class="crumbs">
          <a href={links.overview()}>Overview</a>
        </p>
        <div class="job-title">
          <h1>{job.file.name}</h1>
          <StateTag state={job.state} />
        </div>
        <p class="quiet">
          <a href={links.clients(job.file.population)}>{job.file.population}</a> · created{" "}
          <Ago at={job.created_at_ms} /> · <span title={job.id}>{shortId(job.id)}</span>
        </p>
      </div>
      <Controls job={job} changed={changed} />
      <Stats class="head-stats">
        <Stat label="Committed rounds" value={count(job.rounds_committed)} detail={goal} />
        <Stat label="Opened" value={count(job.rounds_opened)} />
        <Stat label="Model version" value={job.model_version === undefined ? "none" : count(job.model_version)} />
        <Stat label="Parameters" value={compact(job.parameters)} title={count(job.parameters)} />
      </Stats>
    </header>
  );
}

type Action = "pause" | "resume" | "stop" | "policy";

/** Buttons that pause, resume and stop the job or change its round policy, each with a confirmation. */
function Controls({ job, changed }: { job: Job; changed: () => void }) {
  const { api, notify } = useConnection();
  const [asking, ask] = useState<Action>();
  const may = useMay("operator");
  const final = job.state === "stopped" || job.state === "completed";
  const act = (action: Action, done: string) => async () => {
    await api.json(`jobs/${job.id}/${action}`, { method: "POST" });
    notify(`${job.file.name} ${done}`, "good");
    changed();
  };
  const close = () => ask(undefined);
  const { name } = job.file;
  if (!may) return null;
  if (final)
    return (
      <div class="actions">
        <a class="button" href={`${links.newJob()}?from=${job.id}`}>
          New job from this one
        </a>
      </div>
    );
  return (
    <div class="actions">
      {job.state === "running" && (
        <button type="button" onClick={() => ask("pause")}>
          Pause
        </button>
      )}
      {job.state === "paused" && (
        <button type="button" class="primary" onClick={() => ask("resume")}>
          Resume
        </button>
      )}
      <button type="button" onClick={() => ask("policy")}>
        Round policy
      </button>
      <button type="button" class="danger-quiet" onClick={() => ask("stop")}>
        Stop
      </button>
      {asking === "pause" && (
        <Confirm title={`Pause ${name}?`} action="Pause" run={act("pause", "is paused")} onClose={close}>
          <p>The open round goes on to its end; no other opens until the job is resumed.</p>
        </Confirm>
      )}
      {asking === "resume" && (
        <Confirm title={`Resume ${name}?`} action="Resume" run={act("resume", "goes on")} onClose={close}>
          <p>The next round opens as soon as its schedule allows and enough clients are there.</p>
        </Confirm>
      )}
      {asking === "stop" && (
        <Confirm title={`Stop ${name} for good?`} action="Stop" danger run={act("stop", "is stopped")} onClose={close}>
          <p>
            The open round is abandoned and the work of its clients is lost. A stopped job cannot be resumed; its{" "}
            {plural((job.model_version ?? -1) + 1, "model version")} can still be downloaded.
          </p>
        </Confirm>
      )}
      {asking === "policy" && <PolicyDialog job={job} onClose={close} onSaved={changed} />}
    </div>
  );
}
