// An open round: phase, countdown, cohort.

import type { CohortRound, Phase, Round } from "../api/types";
import { clock, count, duration, plural, words } from "../lib/format";
import { links } from "../router";
import { CohortLegend, CohortStrip } from "../ui/cohort";
import { useNow } from "../ui/connection";
import { Glyph, StateTag } from "../ui/glyph";

const STEPS: readonly Phase[] = ["selecting", "training", "aggregating"];

/** What an open round does while no coordinator drives its job. */
export const UNDRIVEN = "waiting for a coordinator";

/** A deadline is near when this share of the round's time is left. */
const SOON_SHARE = 0.15;

export function roundName(round: Round): string {
  if (round.task === "evaluate") {
    return `Evaluation of round ${round.number}`;
  }
  return round.task === "describe" ? `Description ${round.number}` : `Round ${round.number}`;
}

/** The open rounds of a job: training in full, evaluations in one line each. */
export function LiveRounds({
  job,
  rounds,
  undriven,
}: {
  job: string;
  rounds: readonly CohortRound[];
  /** No coordinator drives the job. */
  undriven: boolean;
}) {
  return (
    <>
      {rounds
        .filter(({ task }) => task === "train")
        .map((round) => (
          <LiveRound key={round.number} job={job} round={round} undriven={undriven} />
        ))}
      {rounds
        .filter(({ task }) => task === "evaluate")
        .map((round) => (
          <LiveEvaluation key={`evaluation-${round.number}`} job={job} round={round} undriven={undriven} />
        ))}
    </>
  );
}

/** An open evaluation in one line. */
function LiveEvaluation({ job, round, undriven }: { job: string; round: Round; undriven: boolean }) {
  return (
    <p class="live-evaluation">
      <a href={links.round(job, round.number, round.task)}>{roundName(round)}</a>
      <StateTag state={undriven ? "waiting" : round.phase} text={undriven ? UNDRIVEN : undefined} />
      <span>
        {round.reported} of {plural(round.goal, "report")}
      </span>
      {!undriven && <Countdown round={round} />}
    </p>
  );
}

/** An open training round in full. */
export function LiveRound({ job, round, undriven }: { job: string; round: CohortRound; undriven: boolean }) {
  return (
    <article class="live-round" aria-label={roundName(round)}>
      <header class="live-head">
        <a class="live-name" href={links.round(job, round.number, round.task)}>
          {roundName(round)}
        </a>
        {undriven ? <StateTag state="waiting" text={UNDRIVEN} /> : <PhaseSteps phase={round.phase} />}
        {!undriven && <Countdown round={round} />}
      </header>
      <Progress round={round} />
      <CohortStrip round={round} />
      <CohortLegend round={round} />
    </article>
  );
}

/** The phases of a round in order, with the present one marked. */
function PhaseSteps({ phase }: { phase: Phase }) {
  const at = STEPS.indexOf(phase);
  return (
    <ol class="steps" aria-label={`Phase: ${phase}`}>
      {STEPS.map((step, index) => (
        <li
          key={step}
          class={index === at ? "now" : index < at || at < 0 ? "past" : ""}
          aria-current={index === at ? "step" : undefined}
        >
          <Glyph state={index < at || at < 0 ? "committed" : step} />
          {words(step)}
        </li>
      ))}
    </ol>
  );
}

/** Time to the deadline, on the coordinator's clock. */
export function Countdown({ round }: { round: Round }) {
  const now = useNow(1000);
  if (round.phase === "selecting") {
    return (
      <span class="countdown">
        open for <b>{clock(Math.max(0, now - round.opened_at_ms))}</b>
      </span>
    );
  }
  if (round.phase === "aggregating") return <span class="countdown">making the model</span>;
  if (round.deadline_at_ms === undefined) return null;
  const left = round.deadline_at_ms - now;
  const whole = round.deadline_at_ms - (round.selected_at_ms ?? round.opened_at_ms);
  return (
    <span
      class={`countdown ${left < whole * SOON_SHARE ? "soon" : ""}`}
      data-tip={`The cohort has ${duration(whole)} in all`}
    >
      {left > 0 ? (
        <>
          deadline in <b>{clock(left)}</b>
        </>
      ) : (
        <b>deadline passed</b>
      )}
    </span>
  );
}

/** The counted updates as a share of the goal, with the minimum marked. */
function Progress({ round }: { round: Round }) {
  const share = Math.min(1, round.reported / Math.max(1, round.goal)) * 100;
  const beside = round.buffer
    ? `${count(round.assigned)} of at most ${count(round.buffer.concurrency)} at work`
    : `minimum ${count(round.minimum)}`;
  const label = `${round.reported} of ${plural(round.goal, "update")}, ${beside}`;
  return (
    <div class="progress-line">
      <svg
        class="progress"
        viewBox="0 0 100 6"
        height="6"
        width="100%"
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <rect class="share-track" width="100" height="6" />
        <rect class="fill-reported progress-fill" width={share} height="6" />
        {round.minimum < round.goal && (
          <rect class="share-mark" x={(round.minimum / round.goal) * 100 - 0.2} width="0.4" height="6" />
        )}
      </svg>
      <p class="progress-text">
        <b>{count(round.reported)}</b> of {plural(round.goal, "update")}
        <span class="quiet">
          {" "}
          · {beside}
          {round.phase === "selecting" ? " · waiting for clients" : ""}
        </span>
      </p>
    </div>
  );
}
