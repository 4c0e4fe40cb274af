// How a job is, in lines.

import type { Health } from "../api/types";
import { Glyph } from "./glyph";

/** The lines of a job, most severe first; those that say that all is well only where nothing else is said. */
export function HealthLines({ health, always }: { health: readonly Health[]; always?: boolean }) {
  const shown = health.filter(({ severity }) => severity !== "ok" || always);
  return (
    <>
      {shown.map((line) => (
        <Line key={line.kind} line={line} />
      ))}
    </>
  );
}

function Line({ line }: { line: Health }) {
  const bad = line.severity === "trouble" || line.severity === "warning";
  return (
    <p class={`finding health health-${line.severity} ${bad ? "finding-bad" : "finding-quiet"}`}>
      <Glyph state={line.severity} />
      <span>
        {capital(line.text)}
        {/[.!?]$/.test(line.text) ? "" : "."}
        {line.remedy && <span class="quiet"> What helps: {line.remedy}.</span>}
      </span>
    </p>
  );
}

/** Whether no coordinator drives the job: what its rounds say of themselves is as of before. */
export function isUndriven(health: readonly Health[] | undefined): boolean {
  return health?.some(({ kind }) => kind === "no_driver") ?? false;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
