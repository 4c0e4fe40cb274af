// The tokens with which apps enrol clients, and those of operators.

import { useState } from "preact/hooks";
import type { CreatedToken, Page, Role, Token } from "../api/types";
import { attributesIn, LIVES, linkWith, listed, tokenState, wholeIn } from "../lib/access";
import { serverOf } from "../lib/enrolment";
import { count, plural, shortId } from "../lib/format";
import { useConnection, useNow, type useResource, useScope } from "../ui/connection";
import { Enrolment } from "../ui/enrolment";
import { CreateDialog, Field, FieldChoice } from "../ui/form";
import { useNarrow } from "../ui/narrow";
import { Ago, Attributes, Command, Confirm, Empty, Panel, Pending } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { scopesFor } from "./share";

interface Props {
  resource: ReturnType<typeof useResource<Page<Token>>>;
  populations: readonly string[];
}

export const ROLES: readonly { value: Role; label: string }[] = [
  { value: "viewer", label: "viewer: sees everything but tokens and accounts" },
  { value: "operator", label: "operator: also runs jobs" },
  { value: "admin", label: "admin: also manages access and deletes" },
];

const NO_END = { value: "", label: "no end" };
/** As the coordinator has it where a request says nothing. */
const PER_MINUTE_DEFAULT = 600;

/** Label and id of a token. */
function Named({ token }: { token: Token }) {
  return <span data-tip={token.id}>{token.label || shortId(token.id)}</span>;
}

function Ends({ token, now }: { token: Token; now: number }) {
  const state = tokenState(token, now);
  if (state === "revoked")
    return (
      <span class="quiet">
        revoked <Ago at={token.revoked_at_ms} />
      </span>
    );
  if (state === "used up") return <span class="quiet">used up</span>;
  if (token.expires_at_ms === undefined) return <span class="quiet">no end</span>;
  return (
    <span class={state === "expired" ? "quiet" : ""}>
      {state === "expired" && "ended "}
      <Ago at={token.expires_at_ms} />
    </span>
  );
}

function LastUse({ token }: { token: Token }) {
  return token.last_used_at_ms === undefined ? <span class="quiet">never</span> : <Ago at={token.last_used_at_ms} />;
}

/** Enrolled clients, and how many it may enrol. */
function uses({ uses: made, uses_max: most }: Token): string {
  return most === undefined ? count(made) : `${count(made)} of ${count(most)}`;
}

/** The head of a list of tokens, its buttons, its rows, and the question before a token is revoked. */
function Tokens(props: {
  title: string;
  hint: string;
  kind: Token["kind"];
  resource: Props["resource"];
  columns: (now: number, narrow: boolean) => readonly Column<Token>[];
  /** Text of the button that creates one. */
  create: string;
  onCreate: (() => void) | undefined;
  /** Creates one with the settings of another one. */
  onAgain?: (token: Token) => void;
  empty: string;
}) {
  const { data, refresh } = props.resource;
  const now = useNow(15_000);
  const narrow = useNarrow();
  const [ended, setEnded] = useState(false);
  const [revoking, setRevoking] = useState<Token>();
  const columns: Column<Token>[] = [
    ...props.columns(now, narrow),
    {
      head: "Actions",
      number: true,
      cell: (token) => (
        <span class="row-actions">
          {props.onAgain && !narrow && (
            <button
              type="button"
              class="small"
              aria-label={`Another token like ${token.label || token.id}`}
              data-tip="A new token with these settings: the secret of this one is not kept"
              onClick={() => props.onAgain?.(token)}
            >
              Another
            </button>
          )}
          {token.revoked_at_ms === undefined && (
            <button
              type="button"
              class="small danger-quiet"
              aria-label={`Revoke ${token.label || token.id}`}
              onClick={() => setRevoking(token)}
            >
              Revoke
            </button>
          )}
        </span>
      ),
    },
  ];
  return (
    <Panel
      title={props.title}
      hint={props.hint}
      actions={
        <>
          <label class="check-line filter-check">
            <input type="checkbox" checked={ended} onChange={(event) => setEnded(event.currentTarget.checked)} />
            Ended ones, too
          </label>
          {props.onCreate && (
            <button type="button" onClick={props.onCreate}>
              {props.create}
            </button>
          )}
        </>
      }
    >
      {data ? (
        <Table
          label={props.title}
          class={narrow ? "phone-rows" : ""}
          columns={columns}
          rows={listed(data.items, props.kind, ended, now)}
          rowKey={(token) => token.id}
          empty={<Empty title={props.empty} />}
        />
      ) : (
        <Pending resource={props.resource} lines={3} what="The list of tokens" />
      )}
      {data?.next !== undefined && <p class="hint">The page lists 1,000 tokens; the command line lists all.</p>}
      {revoking && <Revoke token={revoking} onDone={refresh} onClose={() => setRevoking(undefined)} />}
    </Panel>
  );
}

function Revoke({ token, onDone, onClose }: { token: Token; onDone: () => void; onClose: () => void }) {
  const { api, notify } = useConnection();
  const [withClients, setWithClients] = useState(false);
  const name = token.label || shortId(token.id);
  const run = async () => {
    await api.send(`tokens/${token.id}`, { method: "DELETE", query: { with_clients: withClients } });
    notify(`${name} is revoked`, "good");
    onDone();
  };
  return (
    <Confirm title={`Revoke ${name}?`} action="Revoke" danger run={run} onClose={onClose}>
      {token.kind === "operator" ? (
        <p>Who is signed in with it is signed out within seconds. A revoked token never works again.</p>
      ) : (
        <p>It enrols nobody any more. Clients that it enrolled stay, unless you revoke them as well.</p>
      )}
      {token.kind === "enrolment" && token.uses > 0 && (
        <label class="check-line">
          <input
            type="checkbox"
            checked={withClients}
            onChange={(event) => setWithClients(event.currentTarget.checked)}
          />
          Revoke its {plural(token.uses, "client")}, too
        </label>
      )}
    </Confirm>
  );
}

/** The enrolment tokens: who may enrol clients, how many, and how many did. */
export function EnrolmentTokens({ resource, populations }: Props) {
  const [creating, setCreating] = useState<Partial<Token>>();
  const columns = (now: number, narrow: boolean): readonly Column<Token>[] => {
    const label: Column<Token> = { head: "Token", name: true, cell: (token) => <Named token={token} /> };
    if (narrow)
      return [
        {
          ...label,
          cell: (token) => (
            <span class="two-lines">
              <Named token={token} />
              <small class="quiet">
                {token.population} · {uses(token)} enrolled
              </small>
            </span>
          ),
        },
        { head: "Ends", number: true, cell: (token) => <Ends token={token} now={now} /> },
      ];
    return [
      label,
      { head: "Population", cell: (token) => token.population },
      { head: "Enrolled", number: true, cell: uses },
      {
        head: "Per minute",
        number: true,
        title: "most enrolments in a minute",
        cell: (token) => (token.per_minute_max === undefined ? "no limit" : count(token.per_minute_max)),
      },
      { head: "Grants", wide: true, title: "attributes of its clients", cell: grants },
      { head: "Last use", number: true, cell: (token) => <LastUse token={token} /> },
      { head: "Ends", number: true, cell: (token) => <Ends token={token} now={now} /> },
    ];
  };
  return (
    <>
      <Tokens
        title="Enrolment tokens"
        hint="an app or a site enrols its clients with one; a token per site can be revoked alone"
        kind="enrolment"
        resource={resource}
        columns={columns}
        create="New enrolment token"
        onCreate={populations.length > 0 ? () => setCreating({}) : undefined}
        onAgain={setCreating}
        empty="No enrolment token works"
      />
      {creating && (
        <NewEnrolmentToken
          like={creating}
          populations={populations}
          onMade={resource.refresh}
          onClose={() => setCreating(undefined)}
        />
      )}
    </>
  );
}

function grants(token: Token) {
  return Object.keys(token.attributes ?? {}).length === 0 ? "" : <Attributes value={token.attributes} />;
}

function NewEnrolmentToken(props: {
  /** Settings with which the form begins. */
  like: Partial<Token>;
  populations: readonly string[];
  onMade: () => void;
  onClose: () => void;
}) {
  const { api } = useConnection();
  const { like } = props;
  const isCopy = like.id !== undefined;
  const perMinute = isCopy ? like.per_minute_max : PER_MINUTE_DEFAULT;
  const [population, setPopulation] = useState<string>(like.population ?? props.populations[0]!);
  const [label, setLabel] = useState(like.label ?? "");
  const [life, setLife] = useState("");
  const [most, setMost] = useState(like.uses_max === undefined ? "" : String(like.uses_max));
  const [rate, setRate] = useState(perMinute === undefined ? "" : String(perMinute));
  const given = Object.entries(like.attributes ?? {}).map(([name, value]) => `${name}=${value}`);
  const [attributes, setAttributes] = useState(given.join(" "));
  const [created, setCreated] = useState<CreatedToken>();
  const granted = attributesIn(attributes);
  const [usesMax, rateMax] = [wholeIn(most), wholeIn(rate)];
  const whole = (value: number | undefined) => (Number.isNaN(value) ? "a whole number, or nothing" : undefined);
  const run = async () => {
    const body = {
      kind: "enrolment",
      population,
      label: label.trim(),
      attributes: granted,
      per_minute_max: rateMax ?? null,
      ...(usesMax === undefined ? {} : { uses_max: usesMax }),
      ...(life === "" ? {} : { valid_for_ms: Number(life) }),
    };
    setCreated(await api.json<CreatedToken>("tokens", { method: "POST", body }));
    props.onMade();
  };
  return (
    <CreateDialog
      title={created ? "Enrolment token" : "New enrolment token"}
      action="Create token"
      wide
      run={run}
      onClose={props.onClose}
      valid={granted !== undefined && whole(usesMax) === undefined && whole(rateMax) === undefined}
      done={created && <Enrolment created={created} />}
    >
      <div class="form-grid">
        <FieldChoice
          label="Population"
          value={population}
          options={props.populations.map((name) => ({ value: name, label: name }))}
          onChange={setPopulation}
        />
        <Field label="Label" value={label} onInput={setLabel} maxLength={60} hint="for people, such as the site" />
        <FieldChoice label="Ends after" value={life} options={[NO_END, ...LIVES]} onChange={setLife} />
        <Field label="Most clients" value={most} onInput={setMost} hint="empty: no limit" wrong={whole(usesMax)} />
        <Field label="Per minute" value={rate} onInput={setRate} hint="empty: no limit" wrong={whole(rateMax)} />
        <Field
          label="Attributes"
          value={attributes}
          onInput={setAttributes}
          placeholder="site=north"
          hint="granted to its clients, which cannot change them"
          wrong={granted === undefined ? "each is NAME=VALUE" : undefined}
        />
      </div>
    </CreateDialog>
  );
}

/** The tokens of operators: what programs, command lines and shared links may do. */
export function OperatorTokens({ resource, populations }: Props) {
  const [creating, setCreating] = useState(false);
  const whose = (token: Token) => token.population ?? "all";
  const columns = (now: number, narrow: boolean): readonly Column<Token>[] => {
    const label: Column<Token> = { head: "Token", name: true, cell: (token) => <Named token={token} /> };
    const ends: Column<Token> = { head: "Ends", number: true, cell: (token) => <Ends token={token} now={now} /> };
    if (narrow)
      return [
        {
          ...label,
          cell: (token) => (
            <span class="two-lines">
              <Named token={token} />
              <small class="quiet">
                {token.role} of {whose(token)}
              </small>
            </span>
          ),
        },
        ends,
      ];
    return [
      label,
      { head: "Role", cell: (token) => token.role },
      { head: "Population", cell: whose },
      { head: "Last use", number: true, cell: (token) => <LastUse token={token} /> },
      { head: "Created", number: true, wide: true, cell: (token) => <Ago at={token.created_at_ms} /> },
      ends,
    ];
  };
  return (
    <>
      <Tokens
        title="Operator tokens"
        hint="for programs, the command line and shared links"
        kind="operator"
        resource={resource}
        columns={columns}
        create="New operator token"
        onCreate={() => setCreating(true)}
        empty="No operator token works"
      />
      {creating && (
        <NewOperatorToken populations={populations} onMade={resource.refresh} onClose={() => setCreating(false)} />
      )}
    </>
  );
}

function NewOperatorToken(props: { populations: readonly string[]; onMade: () => void; onClose: () => void }) {
  const { api } = useConnection();
  const scopes = scopesFor(useScope(), props.populations);
  const [role, setRole] = useState<string>("viewer");
  const [population, setPopulation] = useState(scopes[0]!.value);
  const [label, setLabel] = useState("");
  const [life, setLife] = useState(LIVES[4]!.value);
  const [created, setCreated] = useState<CreatedToken>();
  const run = async () => {
    const scope = population === "" ? {} : { population };
    const body = { kind: "operator", role, label: label.trim(), valid_for_ms: Number(life), ...scope };
    setCreated(await api.json<CreatedToken>("tokens", { method: "POST", body }));
    props.onMade();
  };
  return (
    <CreateDialog
      title={created ? "Operator token" : "New operator token"}
      action="Create token"
      run={run}
      onClose={props.onClose}
      done={created && <OperatorSecret created={created} />}
    >
      <Field label="Label" value={label} onInput={setLabel} maxLength={60} hint="who or what uses it" />
      <FieldChoice label="Role" value={role} options={ROLES} onChange={setRole} />
      <FieldChoice label="Population" value={population} options={scopes} onChange={setPopulation} />
      <FieldChoice label="Ends after" value={life} options={LIVES} onChange={setLife} />
    </CreateDialog>
  );
}

function OperatorSecret({ created }: { created: CreatedToken }) {
  const server = serverOf(document.baseURI);
  return (
    <div class="secret">
      <p>The token, for a program or TRIBUTARY_TOKEN:</p>
      <Command text={created.secret} />
      <p>The page, signed in with it:</p>
      <Command text={linkWith(server, created.secret, "")} />
      <p class="hint" role="status">
        The token is not shown again.
      </p>
    </div>
  );
}
