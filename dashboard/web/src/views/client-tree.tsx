// The tree of a population as far as this coordinator knows it: its parent, itself, its relays, and the other clients.

import type { Client, Page, Population, System } from "../api/types";
import { count, plural } from "../lib/format";
import { links } from "../router";
import { useResource } from "../ui/connection";
import { Panel } from "../ui/parts";
import { Seen } from "../ui/seen";

/** Relays that are drawn at most. */
const LIMIT = 100;

/** Nothing in a population without relays, at a coordinator that is none. */
export function TreePanel({ population, about }: { population: string; about: Population | undefined }) {
  const system = useResource<System>("system");
  const found = useResource<Page<Client>>("clients", { population, search: "relay", limit: LIMIT }, { pollMs: 15_000 });
  const relays = (found.data?.items ?? []).filter(({ granted }) => granted?.relay === "true");
  const parent = system.data?.parent;
  if (relays.length === 0 && !parent) return null;
  const others = (about?.clients ?? 0) - relays.length;
  return (
    <Panel
      title="Tree"
      hint={`${plural(relays.length, "relay")} of this coordinator; each sends one sum for its clients`}
    >
      <ul class="tree">
        {parent ? (
          <li>
            <span class="node">{parent}</span>
            <ul>
              <Own relays={relays} others={others} />
            </ul>
          </li>
        ) : (
          <Own relays={relays} others={others} />
        )}
      </ul>
    </Panel>
  );
}

function Own({ relays, others }: { relays: readonly Client[]; others: number }) {
  return (
    <li>
      <strong class="node">this coordinator</strong>
      <ul>
        {relays.map((relay) => (
          <li key={relay.id}>
            <span class="node">
              <a href={links.client(relay.id)}>relay {count(relay.number)}</a> <Seen client={relay} />
              {relay.places != null && <small class="quiet"> {plural(relay.places, "client")} behind it</small>}
            </span>
          </li>
        ))}
        {others > 0 && (
          <li>
            <span class="node">{plural(others, relays.length > 0 ? "other client" : "client")}</span>
          </li>
        )}
      </ul>
    </li>
  );
}
