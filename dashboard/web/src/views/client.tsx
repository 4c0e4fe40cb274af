// One client and its rounds.

import { useState } from "preact/hooks";
import type { Client, ClientAssignment, Page, Standing } from "../api/types";
import { tookMs } from "../lib/assignments";
import { shownState } from "../lib/cohort";
import { bytes, count, duration, plural, real, shortId, words } from "../lib/format";
import { links } from "../router";
import { stateWord } from "../ui/cohort";
import { useConnection, useMay, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { jobName } from "../ui/names";
import { useNarrow } from "../ui/narrow";
import { Ago, Attributes, Confirm, Empty, Hint, NotAvailable, Panel, Pending, Stat, Stats, When } from "../ui/parts";
import { Seen } from "../ui/seen";
import { type Column, Pager, Table, usePaging } from "../ui/table";
import { ClientCurves } from "./client-curves";
import { DropRate } from "./clients";
import { Shape } from "./job-sessions";

const PAGE = 50;

/** Why a report did not count, as the round says it. */
function reasonText({ explanation, reason }: ClientAssignment): string | undefined {
  return explanation ?? (reason ? words(reason) : undefined);
}

function Reason({ item }: { item: ClientAssignment }) {
  const text = reasonText(item);
  if (!text) return null;
  return (
    <span class="reason">
      <Hint text={item.explanation && item.reason}>{text}</Hint>
    </span>
  );
}

const COLUMNS: readonly Column<ClientAssignment>[] = [
  {
    head: "Round",
    name: true,
    cell: (item) => <a href={links.round(item.job, item.round, item.task)}>{count(item.round)}</a>,
  },
  {
    head: "Job",
    cell: (item) => (
      <>
        <a href={links.job(item.job)} data-tip={item.job}>
          {jobName(item.job) ?? shortId(item.job)}
        </a>
        {item.task === "evaluate" && <small class="quiet"> evaluation</small>}
      </>
    ),
  },
  {
    head: "State",
    cell: (item) => <StateTag state={shownState(item)} text={stateWord(shownState(item))} />,
  },
  { head: "Session", cell: (item) => <Shape shape={item.shape} state={shownState(item)} /> },
  { head: "Reason", wide: true, cell: (item) => <Reason item={item} /> },
  {
    head: "Took",
    number: true,
    title: "the client's own time: of a straggler, until it came back",
    cell: (item) => duration(tookMs(item)),
  },
  { head: "Loss", number: true, wide: true, cell: (item) => real(item.loss) },
  { head: "Norm", number: true, wide: true, cell: (item) => real(item.update_norm) },
  { head: "Up", number: true, wide: true, cell: (item) => bytes(item.bytes_up) },
  {
    head: "Assigned",
    zoned: true,
    number: true,
    wide: true,
    cell: (item) => <When at={item.assigned_at_ms} />,
  },
];

/** Two lines per assignment: job, round and session; state, and how long it took. */
const PHONE: readonly Column<ClientAssignment>[] = [
  {
    head: "Round",
    name: true,
    cell: (item) => (
      <span class="two-lines">
        <span>
          <a href={links.round(item.job, item.round, item.task)}>
            {jobName(item.job) ?? shortId(item.job)} {count(item.round)}
          </a>
          {item.task === "evaluate" && <small class="quiet"> evaluation</small>}
        </span>
        <small class="quiet">{reasonText(item) ?? <Ago at={item.assigned_at_ms} />}</small>
      </span>
    ),
  },
  {
    head: "State",
    number: true,
    cell: (item) => (
      <span class="two-lines">
        <StateTag state={shownState(item)} text={stateWord(shownState(item))} />
        <small class="quiet">{duration(tookMs(item))}</small>
      </span>
    ),
  },
];

function NoClient() {
  return (
    <Empty title="This coordinator has no such client">
      <a href={links.clients()}>All clients</a>
    </Empty>
  );
}

/** A client: its figures and the history of its assignments. */
export function ClientView({ id }: { id: string }) {
  const client = useResource<Client>(`clients/${id}`, {}, { pollMs: 15_000 });
  const paging = usePaging(id);
  const narrow = useNarrow();
  const history = useResource<Page<ClientAssignment>>(
    `clients/${id}/assignments`,
    { limit: PAGE, after: paging.after },
    { pollMs: 15_000 },
  );
  const { data } = client;
  return (
    <>
      {data ? (
        <Head client={data} changed={client.refresh} />
      ) : (
        <>
          <h1>Client</h1>
          <Panel title={client.error?.missing ? "Not found" : "Client"}>
            <Pending resource={client} lines={4} missing={<NoClient />} />
          </Panel>
        </>
      )}
      {history.data && <ClientCurves history={history.data.items} />}
      {!client.error?.missing && (
        <Panel title="History" hint="newest first">
          {history.data ? (
            <>
              <Table
                label="Rounds of this client"
                class={narrow ? "phone-rows" : ""}
                columns={narrow ? PHONE : COLUMNS}
                rows={history.data.items}
                rowKey={(item) => item.id}
                stale={history.stale}
                empty={
                  <Empty title="Not selected yet">
                    A client can be selected when it is eligible and checks in while a round selects its cohort.
                  </Empty>
                }
              />
              <Pager paging={paging} next={history.data.next} />
            </>
          ) : (
            <Pending resource={history} lines={8} missing={<NotAvailable what="The history of a client" />} />
          )}
        </Panel>
      )}
    </>
  );
}

/** Who the client is, and its figures over all rounds. */
function Head({ client, changed }: { client: Client; changed: () => void }) {
  const selected = client.reported + client.expired + client.failed;
  return (
    <header class="view-head client-head">
      <div>
        <p class="crumbs">
          <a href={links.clients(client.population)}>Clients of {client.population}</a>
        </p>
        <h1>Client {count(client.number)}</h1>
        <p class="quiet">
          <code>{client.id}</code>
          {client.sdk !== undefined && <>, {client.sdk} SDK</>}
          {client.consent && (
            <>
              , consent {client.consent.text} <When at={client.consent.given_at_ms} />
            </>
          )}
        </p>
        <Attributes value={client.attributes} granted={client.granted} />
        {client.releases?.map(({ channel, number, job_name, version, since_ms }) => (
          <p key={channel}>
            has release {count(number)} of {channel}: {job_name} version {count(version)}, since <Ago at={since_ms} />
          </p>
        ))}
        {client.standing !== undefined && client.standing !== "active" && (
          <p>
            <StateTag state={client.standing} /> {client.standing_reason}
          </p>
        )}
        <Controls client={client} changed={changed} />
      </div>
      <Stats class="head-stats">
        <Stat
          label="Last seen"
          value={<Seen client={client} />}
          detail={
            <>
              enrolled <Ago at={client.created_at_ms} />
              {client.certificate_until_ms !== undefined && (
                <>
                  , certificate ends <Ago at={client.certificate_until_ms} />
                </>
              )}
            </>
          }
        />
        <Stat label="Selected" value={plural(selected, "time")} detail={`${count(client.reported)} reported`} />
        <Stat label="Dropped" value={<DropRate client={client} />} detail={losses(client)} />
        <Stat label="Examples" value={count(client.examples)} />
        <Stat label="Work, mean" value={duration(client.work_ms_mean)} />
        <Stat label="Traffic" value={bytes(client.bytes_up)} detail={`up, ${bytes(client.bytes_down)} down`} />
      </Stats>
    </header>
  );
}

/** Buttons that quarantine, release, revoke and erase the client, each with a confirmation. */
function Controls({ client, changed }: { client: Client; changed: () => void }) {
  const { api, notify } = useConnection();
  const [asking, ask] = useState<Standing | "erased">();
  const may = useMay("operator");
  const standing = client.standing ?? "active";
  const name = `Client ${count(client.number)}`;
  const set = (to: Standing, done: string) => async () => {
    await api.json(`clients/${client.id}/standing`, { method: "PUT", body: { standing: to } });
    notify(`${name} ${done}`, "good");
    changed();
  };
  const erase = async () => {
    await api.json(`clients/${client.id}`, { method: "DELETE" });
    notify(`${name} is erased`, "good");
    window.location.hash = links.clients(client.population);
  };
  const close = () => ask(undefined);
  if (!may) return null;
  return (
    <div class="actions">
      {standing === "active" && (
        <button type="button" onClick={() => ask("quarantined")}>
          Quarantine
        </button>
      )}
      {standing === "quarantined" && (
        <button type="button" class="primary" onClick={() => ask("active")}>
          Release
        </button>
      )}
      {standing !== "revoked" && (
        <button type="button" class="danger-quiet" onClick={() => ask("revoked")}>
          Revoke
        </button>
      )}
      <button type="button" class="danger-quiet" onClick={() => ask("erased")}>
        Erase
      </button>
      {asking === "quarantined" && (
        <Confirm
          title={`Quarantine ${name}?`}
          action="Quarantine"
          run={set("quarantined", "is quarantined")}
          onClose={close}
        >
          <p>Its open work ends, and it gets no more until it is released.</p>
        </Confirm>
      )}
      {asking === "active" && (
        <Confirm title={`Release ${name}?`} action="Release" run={set("active", "is released")} onClose={close}>
          <p>It can be selected again.</p>
        </Confirm>
      )}
      {asking === "revoked" && (
        <Confirm
          title={`Revoke ${name} for good?`}
          action="Revoke"
          danger
          run={set("revoked", "is revoked")}
          onClose={close}
        >
          <p>
            Its open work ends, and all its requests are refused. With an enrolment token that still works, the device
            can enrol as a new client.
          </p>
        </Confirm>
      )}
      {asking === "erased" && (
        <Confirm title={`Erase ${name}?`} action="Erase" danger run={erase} onClose={close}>
          <p>
            Its record, its attributes and its history are deleted, and cannot be had back. Sums and models that it is
            part of stay. An app that goes on enrols as a new client.
          </p>
        </Confirm>
      )}
    </div>
  );
}

/** What became of the selections without an accepted report. */
function losses({ expired, spare = 0, failed }: Client): string {
  return `${count(expired - spare)} late, ${count(failed)} failed; ${count(spare)} spare`;
}
