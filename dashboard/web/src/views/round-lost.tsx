// The clients of a round whose report did not count, by reason.

import type { Assignment } from "../api/types";
import { type CohortState, lossReason, shownState } from "../lib/cohort";
import { plural, words } from "../lib/format";
import { links } from "../router";
import { stateWord } from "../ui/cohort";
import { StateTag } from "../ui/glyph";
import { Panel } from "../ui/parts";

const STRAGGLERS = {
  finished_late: "finished after the round had closed",
  stopped: "stopped when the round had closed, unfinished",
  not_back: "never came back",
} as const;

/** What groups the clients whose report did not count: times differ from one to the next. */
function kindOf(item: Assignment): string {
  return item.straggler ? STRAGGLERS[item.straggler] : lossReason(item);
}

/** The clients whose report did not count, grouped by reason. */
export function Lost({ items }: { items: readonly Assignment[] }) {
  const lost = items.filter((item) => item.state === "rejected" || item.state === "failed" || item.state === "expired");
  if (lost.length === 0) return null;
  const groups = new Map<string, Assignment[]>();
  for (const item of lost) {
    const key = `${shownState(item)}|${kindOf(item)}`;
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return (
    <Panel title="Not counted" hint="spares that were not needed, stragglers, refused updates, clients that gave up">
      <ul class="lost">
        {[...groups]
          .sort(([, a], [, b]) => b.length - a.length)
          .map(([key, group]) => {
            const [state = "", ...parts] = key.split("|");
            const reason = parts.join("|");
            return (
              <li key={key}>
                <StateTag state={state} text={stateWord(state as CohortState)} />
                <span class="lost-reason">{group.length === 1 ? lossReason(group[0]!) : words(reason)}</span>
                <span class="lost-clients">
                  {plural(group.length, "client")}:{" "}
                  {group.slice(0, 12).map((item, index) => (
                    <>
                      {index > 0 && ", "}
                      <a key={item.id} href={links.client(item.client)}>
                        {item.client_number}
                      </a>
                    </>
                  ))}
                  {group.length > 12 && " …"}
                </span>
              </li>
            );
          })}
      </ul>
    </Panel>
  );
}
