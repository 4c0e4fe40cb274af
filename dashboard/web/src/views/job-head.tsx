// The head of a job: name, tags, notes, results, hyperparameters, and its controls.

import { useState } from "preact/hooks";
import type { Job, RoundPolicy } from "../api/types";
import {
  bytes,
  compact,
  count,
  duration,
  percent,
  plural,
  real,
  shortId,
  spreadOf,
  sureness,
  UNKNOWN,
} from "../lib/format";
import { hyperparameters } from "../lib/settings";
import { links } from "../router";
import { useConnection, useMay } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { Ago, Confirm, Stat, Stats, Tags } from "../ui/parts";
import { FilingDialog } from "./filing";
import { PolicyDialog } from "./policy";
import { ShareButton } from "./share";

/** Name, state, figures and controls of a job. `changed` is called after each change that the person made. */
export function JobHead({ job, changed }: { job: Job; changed: () => void }) {
  return (
    <header class="view-head job-head">
      <div>
        <p class="crumbs">
          <a href={links.overview()}>Overview</a>
        </p>
        <div class="job-title">
          <h1>{job.file.name}</h1>
          <StateTag state={job.state} />
          {job.archived_at_ms !== undefined && <span class="chip">archived</span>}
          <Tags tags={job.tags} />
        </div>
        <p class="quiet">
          <a href={links.clients(job.file.population)}>{job.file.population}</a> · created{" "}
          <Ago at={job.created_at_ms} /> · <span data-tip={job.id}>{shortId(job.id)}</span>
        </p>
        {job.notes && <p class="job-notes">{job.notes}</p>}
      </div>
      <Controls job={job} changed={changed} />
      <Stats class="head-stats">
        <Figures job={job} />
      </Stats>
      <Hyperparameters job={job} />
      {job.progress?.useful_updates && <p class="quiet">{job.progress.useful_updates.text}</p>}
    </header>
  );
}

/** What came of the job so far, and when it ends. */
function Figures({ job }: { job: Job }) {
  const { stop } = job.file;
  const { progress } = job;
  const best = progress?.best;
  const ended = job.state === "stopped" || job.state === "completed";
  return (
    <>
      <Stat
        label="Accuracy"
        value={percent(progress?.accuracy, 2)}
        detail={accuracyDetail(progress, stop?.accuracy)}
        title={spreadOf(progress?.measured_on)}
      />
      <Stat
        label={best && best.accuracy === undefined ? "Best loss" : "Best"}
        value={best ? (best.accuracy === undefined ? real(best.loss) : percent(best.accuracy, 2)) : UNKNOWN}
        detail={
          best && (
            <>
              <a href={links.round(job.id, best.round)}>round {count(best.round)}</a>
              {best.measured_on && `, ${sureness(best.measured_on)}`}
            </>
          )
        }
        title="the version whose accuracy has the highest lower bound"
      />
      <Stat label="Loss" value={real(progress?.loss)} />
      <Stat
        label="Rounds"
        value={count(job.rounds_committed)}
        detail={stop?.rounds === undefined ? `${count(job.rounds_opened)} opened` : `of ${count(stop.rounds)}`}
        title={`${count(job.rounds_opened)} opened, ${count(job.rounds_committed)} committed`}
      />
      {ended ? (
        <Stat
          label="Took"
          value={duration((job.ended_at_ms ?? job.created_at_ms) - job.created_at_ms)}
          detail={
            <>
              ended <Ago at={job.ended_at_ms} />
            </>
          }
        />
      ) : (
        <Stat
          label="Time left"
          value={timeLeft(progress)}
          detail={leftDetail(job)}
          title="until the job has its rounds, at the median pace of the last twenty"
        />
      )}
      <Stat
        label="Traffic"
        value={bytes(progress?.bytes_up)}
        detail={progress && `up, ${bytes(progress.bytes_down)} down`}
      />
      <Stat label="Version" value={job.model_version === undefined ? "none" : count(job.model_version)} />
      <Stat label="Parameters" value={compact(job.parameters)} title={count(job.parameters)} />
    </>
  );
}

function timeLeft(progress: Job["progress"]): string {
  if (progress?.awaits_evaluation) return "evaluation";
  return progress?.ends_in_ms === undefined ? UNKNOWN : `≈ ${duration(progress.ends_in_ms)}`;
}

/** On what the accuracy was measured, and at which one the job ends. */
function accuracyDetail(progress: Job["progress"], stop: number | undefined): string | undefined {
  const parts = [
    sureness(progress?.measured_on),
    stop === undefined ? undefined : `ends once ${percent(stop, 0)} is sure`,
  ];
  return parts.filter(Boolean).join("; ") || undefined;
}

/** Why the time that is left is unknown, or what may end the job sooner. */
function leftDetail(job: Job): string | undefined {
  const { stop, schedule } = job.file;
  if (job.progress?.awaits_evaluation) return "the rounds are done, their last evaluation is waited for";
  if (job.progress?.ends_in_ms !== undefined) return stop?.accuracy === undefined ? undefined : "or sooner";
  if (job.state !== "running") return undefined;
  if (schedule) return "by its schedule";
  return stop?.rounds === undefined ? "no limit of rounds" : "after two rounds";
}

/** The settings that decide when updates meet. */
function tempo(round: RoundPolicy): { name: string; value: string }[] {
  const { mode } = round;
  switch (mode?.kind) {
    case "buffered":
      return [
        { name: "buffer", value: count(mode.buffer) },
        { name: "at work", value: `at most ${count(mode.concurrency)}` },
      ];
    case "stale_synchronous":
      return [
        { name: "members", value: count(mode.members) },
        { name: "slack", value: count(mode.slack ?? 3) },
      ];
    default:
      return [
        {
          name: "goal",
          value: `${count(round.updates_goal)} of ${count(Math.ceil(round.updates_goal * round.over_selection))}`,
        },
        { name: "minimum", value: count(round.updates_min) },
      ];
  }
}

/** The deadline, or its bounds where it follows the measured times. */
function deadline({ adapt, deadline_ms }: RoundPolicy): string {
  if (!adapt) return duration(deadline_ms);
  const [least, most] = [adapt.deadline_min_ms ?? deadline_ms, adapt.deadline_max_ms ?? deadline_ms];
  return `${duration(least)} to ${duration(most)}, measured`;
}

/** The settings that decide how the job learns, from its file. */
function Hyperparameters({ job }: { job: Job }) {
  const { round } = job.file;
  const pairs = [...hyperparameters(job.file), ...tempo(round), { name: "deadline", value: deadline(round) }];
  return (
    <p class="chips hyperparameters">
      {pairs.map(({ name, value }) => (
        <span key={name} class="chip">
          <span class="chip-name">{name}</span> {value}
        </span>
      ))}
    </p>
  );
}

type Action = "pause" | "resume" | "stop" | "policy" | "filing" | "delete";

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
  if (final) return <EndedControls job={job} changed={changed} />;
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
      <button type="button" onClick={() => ask("filing")}>
        Edit
      </button>
      <ShareButton population={job.file.population} />
      <button type="button" class="danger-quiet" onClick={() => ask("stop")}>
        Stop
      </button>
      {asking === "filing" && <FilingDialog job={job} onClose={close} onSaved={changed} />}
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

/** What can be done with a job that has ended: copy it, file it, archive it, delete it. */
function EndedControls({ job, changed }: { job: Job; changed: () => void }) {
  const { api, notify } = useConnection();
  const [asking, ask] = useState<Action>();
  const mayDelete = useMay("admin");
  const close = () => ask(undefined);
  const { name } = job.file;
  const archived = job.archived_at_ms !== undefined;
  const archive = async () => {
    try {
      await api.json(`jobs/${job.id}`, { method: "PATCH", body: { archived: !archived } });
      notify(archived ? `${name} is in the lists again` : `${name} is archived`, "good");
      changed();
    } catch (error) {
      notify((error as Error).message, "bad");
    }
  };
  const remove = async () => {
    await api.send(`jobs/${job.id}`, { method: "DELETE" });
    notify(`${name} is deleted`, "good");
    window.location.hash = links.overview();
  };
  return (
    <div class="actions">
      <a class="button" href={`${links.newJob()}?from=${job.id}`}>
        New job from this one
      </a>
      <button type="button" onClick={() => ask("filing")}>
        Edit
      </button>
      <ShareButton population={job.file.population} />
      <button type="button" onClick={archive}>
        {archived ? "Unarchive" : "Archive"}
      </button>
      {mayDelete && (
        <button type="button" class="danger-quiet" onClick={() => ask("delete")}>
          Delete
        </button>
      )}
      {asking === "filing" && <FilingDialog job={job} onClose={close} onSaved={changed} />}
      {asking === "delete" && (
        <Confirm title={`Delete ${name} for good?`} action="Delete" danger run={remove} onClose={close}>
          <p>
            Its {plural(job.rounds_opened, "round")} and {plural((job.model_version ?? -1) + 1, "model version")} are
            deleted, pinned ones too. The audit log keeps that it existed.
          </p>
        </Confirm>
      )}
    </div>
  );
}
