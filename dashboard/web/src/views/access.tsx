// Access: populations, the tokens of apps and of operators, and the accounts of people.

import { useState } from "preact/hooks";
import type { Page, Population, Token } from "../api/types";
import { count, presence } from "../lib/format";
import { links } from "../router";
import { useConnection, useMay, useResource, useScope } from "../ui/connection";
import { CreateDialog, NameField } from "../ui/form";
import { Ago, Empty, Panel, Pending } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { Accounts } from "./access-accounts";
import { EnrolmentTokens, OperatorTokens } from "./access-tokens";
import { ShareDialog } from "./share";

/** How often the lists are asked for again, in milliseconds: neither uses nor tokens are events of the feed. */
const POLL_MS = 10_000;
/** Most items of a list: those of one page of the API. */
const ITEMS_MAX = 1000;

/** What administrators manage. An administrator of one population manages only that. */
export function AccessView() {
  const may = useMay("admin");
  const scope = useScope();
  if (may) return <Managed scope={scope} />;
  return (
    <>
      <header class="view-head">
        <h1>Access</h1>
      </header>
      <Panel title="Access">
        <Empty title="Administrators manage access">You are signed in with another role.</Empty>
      </Panel>
    </>
  );
}

function Managed({ scope }: { scope: string | undefined }) {
  const [sharing, setSharing] = useState(false);
  const options = { pollMs: POLL_MS };
  const populations = useResource<Page<Population>>("populations", { limit: ITEMS_MAX }, options);
  const tokens = useResource<Page<Token>>("tokens", { limit: ITEMS_MAX }, options);
  const names = populations.data?.items.map(({ name }) => name) ?? [];
  return (
    <>
      <header class="view-head">
        <div>
          <h1>Access</h1>
          {scope !== undefined && <p class="quiet">Population {scope} only</p>}
        </div>
        {populations.data && (
          <div class="actions">
            <button type="button" class="primary" onClick={() => setSharing(true)}>
              Share
            </button>
          </div>
        )}
      </header>
      <Populations resource={populations} mayCreate={scope === undefined} />
      <EnrolmentTokens resource={tokens} populations={names} />
      <OperatorTokens resource={tokens} populations={names} />
      <Accounts populations={names} />
      <p class="hint">
        Who did what is in the <a href={links.system()}>audit log</a>.
      </p>
      {sharing && (
        <ShareDialog populations={names} hash="#/" onMade={tokens.refresh} onClose={() => setSharing(false)} />
      )}
    </>
  );
}

const POPULATIONS: readonly Column<Population>[] = [
  { head: "Population", name: true, cell: ({ name }) => <a href={links.clients(name)}>{name}</a> },
  { head: "Clients", number: true, cell: (population) => count(population.clients) },
  {
    head: "Online",
    number: true,
    cell: (population) => presence(population.online ?? 0, population.working ?? 0) || "none",
  },
  { head: "Created", number: true, wide: true, cell: (population) => <Ago at={population.created_at_ms} /> },
];

function Populations(props: { resource: ReturnType<typeof useResource<Page<Population>>>; mayCreate: boolean }) {
  const { data, refresh } = props.resource;
  const [creating, setCreating] = useState(false);
  return (
    <Panel
      title="Populations"
      hint="the clients of one app; tokens and jobs belong to it"
      actions={
        props.mayCreate && (
          <button type="button" onClick={() => setCreating(true)}>
            New population
          </button>
        )
      }
    >
      {data ? (
        <Table
          label="Populations"
          columns={POPULATIONS}
          rows={data.items}
          rowKey={({ name }) => name}
          empty={<Empty title="No population yet">Tokens and jobs need one.</Empty>}
        />
      ) : (
        <Pending resource={props.resource} lines={3} what="The list of populations" />
      )}
      {creating && <NewPopulation onMade={refresh} onClose={() => setCreating(false)} />}
    </Panel>
  );
}

function NewPopulation({ onMade, onClose }: { onMade: () => void; onClose: () => void }) {
  const { api, notify } = useConnection();
  const [name, setName] = useState("");
  const run = async () => {
    await api.json("populations", { method: "POST", body: { name: name.trim() } });
    notify(`${name.trim()} is created`, "good");
    onMade();
    onClose();
  };
  return (
    <CreateDialog title="New population" action="Create" run={run} onClose={onClose}>
      <NameField value={name} onInput={setName} />
    </CreateDialog>
  );
}
