// The accounts of people who sign in with a password.

import { useState } from "preact/hooks";
import type { Account, Page, Session } from "../api/types";
import { useConnection, useResource, useScope } from "../ui/connection";
import { CreateDialog, Field, FieldChoice, NameField } from "../ui/form";
import { useNarrow } from "../ui/narrow";
import { Ago, Confirm, Empty, Panel, Pending } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { ROLES } from "./access-tokens";
import { scopesFor } from "./share";

const POLL_MS = 10_000;
/** As the coordinator has it. */
const PASSWORD_CHARS_MIN = 12;

type Asked = { what: "password" | "sessions" | "revoke"; account: Account };

/** The accounts with role and population. */
export function Accounts({ populations }: { populations: readonly string[] }) {
  const accounts = useResource<Page<Account>>("accounts", { limit: 1000 }, { pollMs: POLL_MS });
  const narrow = useNarrow();
  const [ended, setEnded] = useState(false);
  const [creating, setCreating] = useState(false);
  const [asked, ask] = useState<Asked>();
  const rows = accounts.data?.items.filter((account) => ended || account.revoked_at_ms === undefined) ?? [];
  return (
    <Panel
      title="Accounts"
      hint="people who sign in with a password; others come from the identity provider"
      actions={
        <>
          <label class="check-line filter-check">
            <input type="checkbox" checked={ended} onChange={(event) => setEnded(event.currentTarget.checked)} />
            Revoked ones, too
          </label>
          <button type="button" onClick={() => setCreating(true)}>
            New account
          </button>
        </>
      }
    >
      {accounts.data ? (
        <Table
          label="Accounts"
          class={narrow ? "phone-rows" : ""}
          columns={columnsOf(narrow, ask)}
          rows={rows}
          rowKey={({ name }) => name}
          empty={<Empty title="No account yet">Until then, people sign in with an operator token.</Empty>}
        />
      ) : (
        <Pending resource={accounts} lines={3} what="The list of accounts" />
      )}
      {creating && (
        <NewAccount populations={populations} onMade={accounts.refresh} onClose={() => setCreating(false)} />
      )}
      {asked && <Asking asked={asked} onDone={accounts.refresh} onClose={() => ask(undefined)} />}
    </Panel>
  );
}

function columnsOf(narrow: boolean, ask: (asked: Asked) => void): readonly Column<Account>[] {
  const whose = (account: Account) => account.population ?? "all";
  const actions: Column<Account> = {
    head: "Actions",
    number: true,
    cell: (account) =>
      account.revoked_at_ms !== undefined ? (
        <span class="quiet">
          revoked <Ago at={account.revoked_at_ms} />
        </span>
      ) : (
        <span class="row-actions">
          {(["password", "sessions", "revoke"] as const).map((what) => (
            <button
              key={what}
              type="button"
              class={`small ${what === "revoke" ? "danger-quiet" : ""}`}
              aria-label={`${LABELS[what]} ${account.name}`}
              onClick={() => ask({ what, account })}
            >
              {LABELS[what]}
            </button>
          ))}
        </span>
      ),
  };
  if (narrow)
    return [
      {
        head: "Account",
        name: true,
        cell: (account) => (
          <span class="two-lines">
            {account.name}
            <small class="quiet">
              {account.role} of {whose(account)}
            </small>
          </span>
        ),
      },
      actions,
    ];
  return [
    { head: "Account", name: true, cell: ({ name }) => name },
    { head: "Role", cell: ({ role }) => role },
    { head: "Population", cell: whose },
    { head: "Created", number: true, wide: true, cell: (account) => <Ago at={account.created_at_ms} /> },
    { head: "Password set", number: true, wide: true, cell: (account) => <Ago at={account.password_at_ms} /> },
    actions,
  ];
}

const LABELS = { password: "Password", sessions: "Sessions", revoke: "Revoke" } as const;

function Asking({ asked, onDone, onClose }: { asked: Asked; onDone: () => void; onClose: () => void }) {
  const { api, notify } = useConnection();
  const { name } = asked.account;
  if (asked.what === "password") return <NewPassword name={name} onDone={onDone} onClose={onClose} />;
  if (asked.what === "sessions") return <Sessions name={name} onClose={onClose} />;
  const revoke = async () => {
    await api.send(`accounts/${encodeURIComponent(name)}`, { method: "DELETE" });
    notify(`${name} is revoked`, "good");
    onDone();
  };
  return (
    <Confirm title={`Revoke ${name}?`} action="Revoke" danger run={revoke} onClose={onClose}>
      <p>Its sessions end, and it cannot sign in again. Its name stays taken.</p>
    </Confirm>
  );
}

/** A password field that says what is missing. */
function Password({ value, onInput }: { value: string; onInput: (value: string) => void }) {
  return (
    <Field
      label="Password"
      secret
      value={value}
      onInput={onInput}
      required
      autoComplete="new-password"
      hint={`at least ${PASSWORD_CHARS_MIN} characters`}
    />
  );
}

const isLong = (password: string) => [...password].length >= PASSWORD_CHARS_MIN;

function NewPassword({ name, onDone, onClose }: { name: string; onDone: () => void; onClose: () => void }) {
  const { api, notify } = useConnection();
  const [password, setPassword] = useState("");
  const run = async () => {
    await api.send(`accounts/${encodeURIComponent(name)}/password`, { method: "PUT", body: { password } });
    notify(`${name} has a new password`, "good");
    onDone();
    onClose();
  };
  return (
    <CreateDialog title={`New password of ${name}`} action="Set" run={run} onClose={onClose} valid={isLong(password)}>
      <Password value={password} onInput={setPassword} />
      <p class="hint">Its sessions end.</p>
    </CreateDialog>
  );
}

/** The browsers in which an account is signed in. */
function Sessions({ name, onClose }: { name: string; onClose: () => void }) {
  const { api, notify } = useConnection();
  const path = `accounts/${encodeURIComponent(name)}/sessions`;
  const sessions = useResource<Session[]>(path);
  const end = async () => {
    await api.send(path, { method: "DELETE" });
    notify(`The sessions of ${name} have ended`, "good");
  };
  return (
    <Confirm title={`Sessions of ${name}`} action="End all" danger run={end} onClose={onClose}>
      {!sessions.data ? (
        <Pending resource={sessions} lines={2} what="The list of sessions" />
      ) : sessions.data.length === 0 ? (
        <p>It is signed in nowhere.</p>
      ) : (
        <ul class="sessions">
          {sessions.data.map((session) => (
            <li key={session.created_at_ms}>
              {session.address ?? "unknown address"}, last used <Ago at={session.last_used_at_ms} />, ends{" "}
              <Ago at={session.expires_at_ms} />
            </li>
          ))}
        </ul>
      )}
    </Confirm>
  );
}

function NewAccount(props: { populations: readonly string[]; onMade: () => void; onClose: () => void }) {
  const { api, notify } = useConnection();
  const scopes = scopesFor(useScope(), props.populations);
  const [name, setName] = useState("");
  const [role, setRole] = useState<string>("viewer");
  const [population, setPopulation] = useState(scopes[0]!.value);
  const [password, setPassword] = useState("");
  const run = async () => {
    const scope = population === "" ? {} : { population };
    await api.json("accounts", { method: "POST", body: { name: name.trim(), role, password, ...scope } });
    notify(`${name.trim()} can sign in`, "good");
    props.onMade();
    props.onClose();
  };
  return (
    <CreateDialog
      title="New account"
      action="Create account"
      run={run}
      onClose={props.onClose}
      valid={isLong(password)}
    >
      <NameField value={name} onInput={setName} />
      <FieldChoice label="Role" value={role} options={ROLES} onChange={setRole} />
      <FieldChoice label="Population" value={population} options={scopes} onChange={setPopulation} />
      <Password value={password} onInput={setPassword} />
    </CreateDialog>
  );
}
