// Shares the page: a link with the token of a viewer, which ends.

import { useState } from "preact/hooks";
import type { CreatedToken } from "../api/types";
import { LIVES, linkWith } from "../lib/access";
import { serverOf } from "../lib/enrolment";
import { useConnection, useMay, useScope } from "../ui/connection";
import { CreateDialog, Field, FieldChoice } from "../ui/form";
import { At, Command } from "../ui/parts";

/** What a link that is shared may show: one population, or the whole deployment. */
export function scopesFor(scope: string | undefined, populations: readonly string[]) {
  const one = (name: string) => ({ value: name, label: name });
  return scope === undefined ? [{ value: "", label: "whole deployment" }, ...populations.map(one)] : [one(scope)];
}

/** A button that shares the view in which it stands. Only administrators create tokens. */
export function ShareButton({ population }: { population: string }) {
  const [open, setOpen] = useState(false);
  if (!useMay("admin")) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Share
      </button>
      {open && <ShareDialog populations={[population]} hash={window.location.hash} onClose={() => setOpen(false)} />}
    </>
  );
}

/** Asks for whom, of what and how long, and shows the link once. */
export function ShareDialog(props: {
  populations: readonly string[];
  /** The view that the link opens. */
  hash: string;
  onClose: () => void;
  onMade?: () => void;
}) {
  const { api } = useConnection();
  const scopes = scopesFor(useScope(), props.populations);
  const [label, setLabel] = useState("");
  // A link for a job shows its population; the narrower one is the first choice.
  const [population, setPopulation] = useState(scopes.at(props.populations.length === 1 ? -1 : 0)!.value);
  const [life, setLife] = useState(LIVES[2]!.value);
  const [created, setCreated] = useState<CreatedToken>();
  const run = async () => {
    const body = {
      kind: "operator",
      role: "viewer",
      label: label.trim() || "shared link",
      valid_for_ms: Number(life),
      ...(population === "" ? {} : { population }),
    };
    setCreated(await api.json<CreatedToken>("tokens", { method: "POST", body }));
    props.onMade?.();
  };
  return (
    <CreateDialog
      title="Share"
      action="Create link"
      run={run}
      onClose={props.onClose}
      done={created && <Shared created={created} hash={props.hash} />}
    >
      <p class="hint">A link for one who only looks: it shows jobs, rounds and clients, and changes nothing.</p>
      <Field
        label="For whom"
        value={label}
        onInput={setLabel}
        maxLength={60}
        hint="so that you can find and revoke it"
      />
      <FieldChoice label="Shows" value={population} options={scopes} onChange={setPopulation} />
      <FieldChoice label="Ends after" value={life} options={LIVES} onChange={setLife} />
    </CreateDialog>
  );
}

function Shared({ created, hash }: { created: CreatedToken; hash: string }) {
  const { population, expires_at_ms: end } = created.token;
  return (
    <div class="secret">
      <Command text={linkWith(serverOf(document.baseURI), created.secret, hash)} />
      <p class="hint" role="status">
        Everyone who has the link sees {population === undefined ? "the whole deployment" : population}
        {end !== undefined && (
          <>
            {" "}
            until <At at={end} />
          </>
        )}
        . It is not shown again. Access lists it under operator tokens, where it can be revoked.
      </p>
    </div>
  );
}
