// One shape per state: colour is never the only difference.

import type { AssignmentState, JobState, NodeState, Phase, Severity, Standing } from "../api/types";
import { words } from "../lib/format";

export type AnyState = AssignmentState | JobState | NodeState | Phase | Severity | Standing | "spare";

/** The meaning of a state, which decides its colour. */
export type Tone = "working" | "good" | "bad" | "failed" | "late" | "quiet";

const TONES: Record<AnyState, Tone> = {
  assigned: "working",
  reported: "good",
  rejected: "bad",
  failed: "failed",
  expired: "late",
  awaiting_model: "late",
  running: "working",
  relaying: "working",
  paused: "late",
  stopped: "quiet",
  completed: "good",
  selecting: "quiet",
  training: "working",
  aggregating: "working",
  committed: "good",
  abandoned: "bad",
  spare: "quiet",
  alive: "good",
  late: "late",
  dead: "bad",
  ok: "good",
  waiting: "quiet",
  warning: "late",
  trouble: "bad",
  active: "good",
  quarantined: "late",
  revoked: "bad",
};

export function toneOf(state: string): Tone {
  return TONES[state as AnyState] ?? "quiet";
}

// Drawn on a grid of 12 by 12 in the current colour.
const ring = <circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5" />;
const disc = <circle cx="6" cy="6" r="5" fill="currentColor" />;
const check = (
  <path
    d="M3.6 6.2 5.3 7.9 8.5 4.4"
    fill="none"
    stroke="var(--surface)"
    stroke-width="1.5"
    stroke-linecap="round"
    stroke-linejoin="round"
  />
);
const bars = <path d="M4 2.5v7M8 2.5v7" stroke="currentColor" stroke-width="2" stroke-linecap="round" />;
const cross = (
  <path d="M2.8 2.8l6.4 6.4M9.2 2.8L2.8 9.2" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
);
const half = (
  <>
    {ring}
    <path d="M6 1.75a4.25 4.25 0 0 1 0 8.5z" fill="currentColor" />
  </>
);
const dotted = (
  <circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.75" stroke-dasharray="1.6 1.74" />
);
const clock = (
  <>
    {ring}
    <path d="M6 3.6V6l1.7 1.2" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linecap="round" />
  </>
);
const triangle = (
  <path d="M6 1.6 11 10.4H1z" fill="currentColor" stroke="currentColor" stroke-width="1" stroke-linejoin="round" />
);
const play = (
  <path d="M3.5 2.2v7.6L9.8 6z" fill="currentColor" stroke="currentColor" stroke-width="1" stroke-linejoin="round" />
);
const square = <rect x="2.25" y="2.25" width="7.5" height="7.5" rx="1" fill="currentColor" />;
const join = (
  <path
    d="M2.5 2c0 4 3.5 3 3.5 7v1.5M9.5 2C9.5 6 6 5 6 9"
    fill="none"
    stroke="currentColor"
    stroke-width="1.6"
    stroke-linecap="round"
  />
);
const done = (
  <>
    {disc}
    {check}
  </>
);

const SHAPES: Record<AnyState, preact.JSX.Element> = {
  assigned: half,
  reported: done,
  rejected: cross,
  failed: triangle,
  expired: clock,
  awaiting_model: dotted,
  running: play,
  relaying: play,
  paused: bars,
  stopped: square,
  completed: done,
  selecting: dotted,
  training: half,
  aggregating: join,
  committed: done,
  abandoned: cross,
  spare: ring,
  alive: disc,
  late: clock,
  dead: cross,
  ok: done,
  waiting: dotted,
  warning: triangle,
  trouble: cross,
  active: disc,
  quarantined: bars,
  revoked: cross,
};

/** The shape of a state in its colour; a ring for a state that the page does not know. */
export function Glyph({ state }: { state: string }) {
  return (
    <svg class={`glyph tone-${toneOf(state)}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {SHAPES[state as AnyState] ?? ring}
    </svg>
  );
}

/** A state as shape and word. `text` replaces the word. */
export function StateTag({ state, text }: { state: string; text?: string | undefined }) {
  return (
    <span class={`tag tone-${toneOf(state)}`}>
      <Glyph state={state} />
      {text ?? words(state)}
    </span>
  );
}
