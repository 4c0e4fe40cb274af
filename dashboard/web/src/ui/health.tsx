// How a job is, in one line.

import type { Health } from "../api/types";
import { Glyph } from "./glyph";

/** Nothing for a job with which nothing is wrong, unless `always`. */
export function HealthLine({ health, always }: { health: Health; always?: boolean }) {
  if (health.severity === "ok" && !always) return null;
  const bad = health.severity === "trouble" || health.severity === "warning";
  return (
    <p class={`finding health health-${health.severity} ${bad ? "finding-bad" : "finding-quiet"}`}>
      <Glyph state={health.severity} />
      <span>
        {capital(health.text)}
        {/[.!?]$/.test(health.text) ? "" : "."}
        {health.remedy && <span class="quiet"> What helps: {health.remedy}.</span>}
      </span>
    </p>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
