// The head of a round: its explanation, its neighbours, its figures.

import type { RoundDetail } from "../api/types";
import { bytes, count, duration, percent, real, spreadOf, sureness, words } from "../lib/format";
import { links } from "../router";
import { useNow } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { Ago, At, Stat, Stats } from "../ui/parts";
import { Countdown, roundName, UNDRIVEN } from "./live-round";

/** Explanation, neighbours and figures of a round. `newest` is the number of the job's newest round. */
export function RoundHead({
  job,
  name,
  newest,
  data,
  undriven,
  onPolicy,
}: {
  job: string;
  name: string | undefined;
  newest: number | undefined;
  data: RoundDetail;
  /** No coordinator drives the job of the open round. */
  undriven: boolean;
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
          {undriven ? (
            <StateTag state="waiting" text={UNDRIVEN} />
          ) : (
            <StateTag state={round.phase} text={round.reason ? `abandoned: ${words(round.reason)}` : undefined} />
          )}
          {round.ended_at_ms === undefined && !undriven && <Countdown round={round} />}
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
          detail={sureness(measured.measured_on) ?? (evaluation ? "after this round" : undefined)}
          title={spreadOf(measured.measured_on)}
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
