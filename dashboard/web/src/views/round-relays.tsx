// The relays of a round: the clients that each stands for, and what came of them.

import type { Assignment } from "../api/types";
import { tookMs } from "../lib/assignments";
import { lossReason, shownState } from "../lib/cohort";
import { bytes, count, duration, plural } from "../lib/format";
import { links } from "../router";
import { stateWord } from "../ui/cohort";
import { StateTag } from "../ui/glyph";
import { Panel } from "../ui/parts";
import { type Column, Table } from "../ui/table";

/** The updates that a relay brought, as soon as it has reported. */
function counted(item: Assignment): number | undefined {
  return item.state === "reported" ? (item.updates ?? 0) : undefined;
}

/** The places that brought no update. */
function lost(item: Assignment): number | undefined {
  if (item.state === "assigned") return undefined;
  return (item.places ?? 0) - (counted(item) ?? 0);
}

const COLUMNS: Column<Assignment>[] = [
  {
    head: "Relay",
    name: true,
    sort: (item) => item.client_number,
    cell: (item) => <a href={links.client(item.client)}>{item.client_number}</a>,
  },
  {
    head: "State",
    cell: (item) => (
      <span class="two-lines">
        <StateTag state={shownState(item)} text={stateWord(shownState(item))} />
        {item.state !== "reported" && item.state !== "assigned" && <small class="quiet">{lossReason(item)}</small>}
      </span>
    ),
  },
  { head: "Places", number: true, sort: (item) => item.places, cell: (item) => count(item.places) },
  { head: "Counted", number: true, sort: counted, cell: (item) => count(counted(item)) },
  {
    head: "Not counted",
    number: true,
    title: "places whose clients brought no update; the relay's own page says why",
    sort: lost,
    cell: (item) => count(lost(item)),
  },
  { head: "Took", number: true, sort: tookMs, cell: (item) => duration(tookMs(item)) },
  { head: "Sum", number: true, wide: true, cell: (item) => bytes(item.bytes_up) },
  {
    head: "Saved",
    number: true,
    wide: true,
    title: "bytes of its clients' updates, less those of the sum",
    cell: (item) => (item.bytes_below === undefined ? "" : bytes(Math.max(item.bytes_below - item.bytes_up, 0))),
  },
  {
    head: "Answered in",
    number: true,
    wide: true,
    title: "how long this coordinator took to answer the relay",
    cell: (item) => duration(item.round_trip_ms),
  },
  { head: "Model", number: true, wide: true, cell: (item) => bytes(item.bytes_down) },
];

/** Nothing in a round without relays. */
export function RelaysPanel({ items }: { items: readonly Assignment[] }) {
  const relays = items.filter((item) => item.places !== undefined);
  if (relays.length === 0) return null;
  const places = relays.reduce((sum, item) => sum + (item.places ?? 0), 0);
  return (
    <Panel
      title="Relays"
      hint={`${plural(relays.length, "relay")} for ${plural(places, "client")}; each sends one sum of their updates`}
    >
      <Table label="Relays" columns={COLUMNS} rows={relays} rowKey={(item) => item.id} />
    </Panel>
  );
}
