// The clients of a population: search, participation, and a comparison of device classes.

import { useEffect, useState } from "preact/hooks";
import type { AttributeName, ClassStats, Client, Overview, Page, Population } from "../api/types";
import { countedText, dropRate, findings, workText } from "../lib/bias";
import { bytes, count, duration, percent, plural, presence, words } from "../lib/format";
import { KEYS_HELP } from "../lib/keys";
import { merged } from "../lib/shapes";
import { links, setQuery, useLocation } from "../router";
import { useResource } from "../ui/connection";
import { Glyph } from "../ui/glyph";
import { useNarrow } from "../ui/narrow";
import { Attributes, Choice, Command, Empty, NotAvailable, Panel, Pending, Share } from "../ui/parts";
import { Seen } from "../ui/seen";
import { type Column, Pager, Table, usePaging } from "../ui/table";
import { TreePanel } from "./client-tree";
import { Funnel } from "./job-sessions";

const PAGE = 50;
/** The search starts when typing pauses for so long, in milliseconds. */
const TYPING_MS = 300;

const ORDERS = [
  { value: "number", label: "enrolment" },
  { value: "last_seen", label: "last seen" },
  { value: "drop_rate", label: "drop rate" },
  { value: "reported", label: "reports" },
  { value: "late", label: "late" },
  { value: "failed", label: "failed" },
  { value: "work", label: "work time" },
  { value: "examples", label: "examples" },
  { value: "up", label: "bytes up" },
];

/** The clients and the device classes of the population in the address, or of the largest one. */
export function ClientsView() {
  const { query } = useLocation();
  const overview = useResource<Overview>("overview", {}, { pollMs: 15_000 });
  const listed = useResource<Page<Population>>(overview.error?.missing ? "populations" : undefined);
  const populations = overview.data?.populations ?? listed.data?.items;
  const wanted = query.get("population");
  const population = wanted ?? populations?.toSorted((a, b) => b.clients - a.clients)[0]?.name;
  return (
    <>
      <header class="view-head">
        <h1>Clients</h1>
        {populations && populations.length > 0 && population && (
          <Choice
            label="Population"
            value={population}
            onChange={(value) => setQuery({ population: value, search: undefined, attribute: undefined })}
            options={populations.map(({ name }) => name)}
          />
        )}
      </header>
      {population ? (
        <>
          <ClientTable
            key={population}
            population={population}
            about={populations?.find(({ name }) => name === population)}
          />
          <TreePanel
            key={`tree-${population}`}
            population={population}
            about={populations?.find(({ name }) => name === population)}
          />
          <Classes key={`classes-${population}`} population={population} />
        </>
      ) : populations ? (
        <Panel title="Clients">
          <Empty title="No population yet" command="tributary population create shop">
            Clients enrol in a population. The <a href={links.overview()}>first steps</a> create one, as does this
            command:
          </Empty>
        </Panel>
      ) : (
        <Panel title="Clients">
          <Pending resource={overview.error?.missing ? listed : overview} lines={10} />
        </Panel>
      )}
    </>
  );
}

const COLUMNS: readonly Column<Client>[] = [
  {
    head: "Client",
    name: true,
    key: "number",
    cell: (client) => <a href={links.client(client.id)}>{count(client.number)}</a>,
  },
  { head: "Attributes", wide: true, cell: (client) => <Attributes value={client.attributes} /> },
  { head: "SDK", wide: true, title: "the kind of its SDK", cell: (client) => client.sdk ?? "–" },
  { head: "Last seen", number: true, key: "last_seen", cell: (client) => <Seen client={client} /> },
  { head: "Examples", number: true, wide: true, key: "examples", cell: (client) => count(client.examples) },
  { head: "Reported", number: true, key: "reported", cell: (client) => count(client.reported) },
  {
    head: "Spare",
    number: true,
    wide: true,
    title: "drawn in addition: the round reached its goal without it",
    cell: (client) => count(client.spare ?? 0),
  },
  {
    head: "Late",
    number: true,
    wide: true,
    key: "late",
    title: "the round needed its report and closed without it, or it never came back",
    cell: (client) => count(client.expired - (client.spare ?? 0)),
  },
  {
    head: "Failed",
    number: true,
    wide: true,
    key: "failed",
    cell: (client) => count(client.failed),
    title: "failed or rejected",
  },
  { head: "Dropped", key: "drop_rate", worstFirst: true, cell: (client) => <DropRate client={client} /> },
  {
    head: "Work",
    number: true,
    wide: true,
    key: "work",
    title: "mean per round",
    cell: (client) => duration(client.work_ms_mean),
  },
  { head: "Up", number: true, wide: true, key: "up", cell: (client) => bytes(client.bytes_up) },
];

/** Two lines per client: number, and share of lost selections; attributes, and reports. */
const PHONE: readonly Column<Client>[] = [
  {
    head: "Client",
    name: true,
    cell: (client) => (
      <span class="two-lines">
        <span class="one-line">
          <a href={links.client(client.id)}>{count(client.number)}</a>
          <small class="quiet">
            <Seen client={client} />
          </small>
        </span>
        <Attributes value={client.attributes} />
      </span>
    ),
  },
  {
    head: "Dropped",
    number: true,
    cell: (client) => (
      <span class="two-lines">
        <DropRate client={client} />
        <small class="quiet">{count(client.reported)} reported</small>
      </span>
    ),
  },
];

/** The share of a client's selections that were lost, as a bar. */
export function DropRate({ client }: { client: Client }) {
  const rate = dropRate(client);
  return rate === undefined ? (
    <span class="quiet">never selected</span>
  ) : (
    <Share value={rate} text={percent(rate, 0)} tone="expired" />
  );
}

/** The clients as a table with search and order. */
function ClientTable({ population, about }: { population: string; about: Population | undefined }) {
  const { query } = useLocation();
  const search = query.get("search") ?? "";
  const order = query.get("order") ?? "number";
  const usual = order === "number" ? "asc" : "desc";
  const direction = query.get("direction") ?? usual;
  const [text, setText] = useState(search);
  useEffect(() => {
    const timer = setTimeout(() => text !== search && setQuery({ search: text.trim() || undefined }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const narrow = useNarrow();
  const paging = usePaging(`${population}|${search}|${order}|${direction}`);
  const clients = useResource<Page<Client>>(
    "clients",
    {
      population,
      search,
      order: order === "number" ? undefined : order,
      direction: direction === usual ? undefined : direction,
      limit: PAGE,
      after: paging.after,
    },
    { pollMs: 15_000 },
  );
  return (
    <Panel
      title="Clients"
      hint={
        about &&
        `${plural(about.clients, "client")} enrolled in ${population}; ${
          presence(about.online ?? 0, about.working ?? 0) || "none online"
        } now`
      }
    >
      <div class="filters">
        <label class="choice grow">
          <span>Search</span>
          <input
            type="search"
            aria-keyshortcuts="/"
            data-tip={KEYS_HELP}
            value={text}
            placeholder="number, id or attribute, such as android"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <Choice
          label="Order"
          value={order}
          options={ORDERS}
          onChange={(value) => setQuery({ order: value === "number" ? undefined : value, direction: undefined })}
        />
      </div>
      {clients.data ? (
        <>
          <Table
            label="Clients"
            class={narrow ? "phone-rows" : ""}
            columns={narrow ? PHONE : COLUMNS}
            rows={clients.data.items}
            rowKey={(client) => client.id}
            stale={clients.stale}
            server={{
              key: order,
              descending: direction === "desc",
              onSort: (key, descending) =>
                setQuery({
                  order: key === "number" ? undefined : key,
                  direction: descending === (key !== "number") ? undefined : descending ? "desc" : "asc",
                }),
            }}
            empty={<NoClients population={population} search={search} />}
          />
          <Pager paging={paging} next={clients.data.next} />
        </>
      ) : (
        <Pending resource={clients} lines={12} what="The list of clients" />
      )}
    </Panel>
  );
}

/** Says why the table is empty: no match for the search, or no enrolled client. */
function NoClients({ population, search }: { population: string; search: string }) {
  if (search)
    return (
      <Empty title={`No client matches “${search}”`}>
        A number, the beginning of an id, or an attribute's value is looked for.
      </Empty>
    );
  return (
    <Empty title="No client has enrolled yet" command={`tributary token create --population ${population}`}>
      Apps enrol with a token of their population. Make one, then start a client with it:
      <Command text="TRIBUTARY_TOKEN=ENROLMENT_TOKEN tributary client run --state-dir client-1 --csv examples.csv" />
    </Empty>
  );
}

/** Participation by the values of one attribute, which the person chooses. */
function Classes({ population }: { population: string }) {
  const { query } = useLocation();
  const names = useResource<AttributeName[]>(`populations/${population}/attributes`);
  const list = names.data;
  const attribute = query.get("attribute") ?? telling(list ?? [])?.name;
  const classes = useResource<ClassStats[]>(
    attribute ? `populations/${population}/classes` : undefined,
    { attribute },
    { pollMs: 30_000 },
  );
  const stats = classes.data;
  const chooser = list && list.length > 0 && attribute && (
    <Choice
      label="Attribute"
      value={attribute}
      onChange={(value) => setQuery({ attribute: value })}
      options={list.map(({ name, values }) => ({ value: name, label: `${words(name)} (${values})` }))}
    />
  );
  return (
    <Panel title="Device classes" hint="does the deadline treat all devices alike?" actions={chooser}>
      {list?.length === 0 && (
        <Empty title="Clients have no attributes">
          Apps give their clients attributes such as <code>platform</code> or <code>ram_class</code>. Their values are
          compared here.
        </Empty>
      )}
      {stats && attribute ? (
        <ClassTable attribute={attribute} classes={stats} />
      ) : list?.length === 0 ? null : (
        <Pending
          resource={names.error ? names : classes}
          lines={5}
          missing={<NotAvailable what="The comparison of device classes" />}
        />
      )}
    </Panel>
  );
}

/** An attribute with more values than these identifies clients, not classes of clients. */
const CLASSES_MAX = 12;

/** The attribute compared first: a class of devices, else one with a few values, else the one with the fewest. */
function telling(names: readonly AttributeName[]): AttributeName | undefined {
  const fewest = names.toSorted((a, b) => a.values - b.values);
  const several = fewest.filter(({ values }) => values > 1);
  return (
    several.find(({ name }) => /class|ram|tier/.test(name)) ??
    several.find(({ values }) => values <= CLASSES_MAX) ??
    fewest[0]
  );
}

/** The classes of an attribute as sentences on bias, a table, and funnels. */
function ClassTable({ attribute, classes }: { attribute: string; classes: readonly ClassStats[] }) {
  const narrow = useNarrow();
  const said = findings(attribute, classes);
  const work = (ms: number | undefined, entry: ClassStats) => workText(ms, entry.work_ms_over, duration);
  const columns: Column<ClassStats>[] = [
    { head: words(attribute), name: true, cell: (entry) => entry.value || <span class="quiet">(none)</span> },
    { head: "Clients", number: true, cell: (entry) => count(entry.clients) },
    { head: "Selected", number: true, title: "assignments to train", cell: (entry) => count(entry.assigned) },
    { head: "Reported", number: true, cell: (entry) => count(entry.reported) },
    {
      head: "Spare",
      number: true,
      wide: true,
      title: "drawn in addition: the round reached its goal without them",
      cell: (entry) => count(entry.spare ?? 0),
    },
    { head: "Late", number: true, wide: true, cell: (entry) => count(entry.expired - (entry.spare ?? 0)) },
    {
      head: "Failed",
      number: true,
      wide: true,
      title: "failed or rejected",
      cell: (entry) => count(entry.failed + entry.rejected),
    },
    {
      head: "Counted",
      title: "share of the selections whose update reached the model, and where it lies with 95 % confidence",
      cell: (entry) => <Share value={entry.counted_rate ?? 0} text={countedText(entry)} tone="reported" />,
    },
    { head: "Work, p50", number: true, cell: (entry) => work(entry.work_ms_p50, entry) },
    { head: "Work, p90", number: true, wide: true, cell: (entry) => work(entry.work_ms_p90, entry) },
  ];
  const phone: Column<ClassStats>[] = [
    {
      head: words(attribute),
      name: true,
      cell: (entry) => (
        <span class="two-lines">
          <span>{entry.value || <span class="quiet">(none)</span>}</span>
          <small class="quiet">
            {plural(entry.clients, "client")}, work {work(entry.work_ms_p50, entry)}
          </small>
        </span>
      ),
    },
    {
      head: "Counted",
      number: true,
      cell: (entry) => (
        <span class="two-lines">
          {entry.assigned === 0 ? (
            <span class="quiet">never selected</span>
          ) : (
            <Share value={entry.counted_rate ?? 0} text={percent(entry.counted_rate ?? 0, 0)} tone="reported" />
          )}
          <small class="quiet">
            {count(entry.reported)} of {count(entry.assigned)}
          </small>
        </span>
      ),
    },
  ];
  const shapes = merged(classes.flatMap((entry) => entry.shapes));
  return (
    <>
      {said.map(({ text, bad }) => (
        <p key={text} class={`finding ${bad ? "finding-bad" : ""}`}>
          <Glyph state={bad ? "warning" : "committed"} />
          {text}
        </p>
      ))}
      <Table
        label={`Participation by ${words(attribute)}`}
        class={narrow ? "phone-rows" : ""}
        columns={narrow ? phone : columns}
        rows={classes}
        rowKey={(entry) => entry.value}
        empty={<Empty title="No client has this attribute" />}
      />
      {shapes.length > 0 && (
        <>
          <h3>How far sessions came</h3>
          <Funnels classes={classes} />
        </>
      )}
    </>
  );
}

/** The funnel of each of the first classes. */
function Funnels({ classes }: { classes: readonly ClassStats[] }) {
  return (
    <div class="funnels">
      {classes
        .filter((entry) => entry.shapes.length > 0)
        .slice(0, 6)
        .map((entry) => (
          <div key={entry.value}>
            <h4>{entry.value || "(none)"}</h4>
            <Funnel shapes={entry.shapes} spare={entry.spare} />
          </div>
        ))}
    </div>
  );
}
