// The phases of a round as one bar in proportion to their times.

import type { PhaseSpan, Round } from "../api/types";
import { duration, words } from "../lib/format";
import { Glyph } from "../ui/glyph";

/** Least width of a phase in percent, so that a short one can be seen. */
const SHARE_MIN = 1.5;

/** The spans of a round from its own times, where the coordinator does not list them. */
export function spansOf(round: Round): PhaseSpan[] {
  const spans: PhaseSpan[] = [
    { phase: "selecting", began_at_ms: round.opened_at_ms, ...ended(round.selected_at_ms ?? round.ended_at_ms) },
  ];
  if (round.selected_at_ms !== undefined) {
    spans.push({
      phase: "training",
      began_at_ms: round.selected_at_ms,
      ...ended(round.closed_at_ms ?? round.ended_at_ms),
    });
  }
  if (round.closed_at_ms !== undefined) {
    spans.push({ phase: "aggregating", began_at_ms: round.closed_at_ms, ...ended(round.ended_at_ms) });
  }
  return spans;
}

function ended(ms: number | undefined): { ended_at_ms?: number } {
  return ms === undefined ? {} : { ended_at_ms: ms };
}

/** The phases as one bar in proportion to their times, and as a list with their durations. */
export function PhaseTimeline({ spans, nowMs }: { spans: readonly PhaseSpan[]; nowMs: number }) {
  const lengths = spans
    .filter((span) => span.phase !== "committed" && span.phase !== "abandoned")
    .map((span) => ({ span, ms: Math.max(0, (span.ended_at_ms ?? nowMs) - span.began_at_ms) }));
  const total = Math.max(
    1,
    lengths.reduce((sum, { ms }) => sum + ms, 0),
  );
  const shares = lengths.map(({ ms }) => Math.max(SHARE_MIN, (ms / total) * 100));
  const scale = 100 / shares.reduce((sum, share) => sum + share, 0);
  let x = 0;
  return (
    <div class="timeline">
      <svg viewBox="0 0 100 10" width="100%" height="14" preserveAspectRatio="none" aria-hidden="true">
        {lengths.map(({ span }, index) => {
          const width = shares[index]! * scale;
          x += width;
          return (
            <rect
              key={span.phase}
              class={`phase phase-${span.phase}`}
              x={x - width + (index ? 0.2 : 0)}
              width={Math.max(0.2, width - (index ? 0.2 : 0))}
              height="10"
            />
          );
        })}
      </svg>
      <ol class="timeline-key">
        {lengths.map(({ span, ms }) => (
          <li key={span.phase} class={span.ended_at_ms === undefined ? "now" : ""}>
            <i class={`swatch phase-${span.phase}`} aria-hidden="true" />
            {words(span.phase)} <b>{duration(ms)}</b>
            {span.ended_at_ms === undefined && <Glyph state="alive" />}
          </li>
        ))}
      </ol>
    </div>
  );
}
