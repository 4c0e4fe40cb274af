// The small parts that every view is made of.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/http";
import { absoluteTime, isoTime, relative, UNKNOWN } from "../lib/format";
import { type Resource, useConnection, useNow } from "./connection";

/** A titled part of a view. */
export function Panel(props: {
  title: string;
  hint?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header class="panel-head">
        <div>
          <h2 id={id}>{props.title}</h2>
          {props.hint && <p class="hint">{props.hint}</p>}
        </div>
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** A figure with its name. */
export function Stat(props: {
  label: string;
  value: ComponentChildren;
  detail?: ComponentChildren;
  title?: string | undefined;
}) {
  return (
    <div class="stat" title={props.title}>
      <dt>{props.label}</dt>
      <dd>
        {props.value}
        {props.detail !== undefined && <small>{props.detail}</small>}
      </dd>
    </div>
  );
}

export function Stats({ children, class: extra = "" }: { children: ComponentChildren; class?: string }) {
  return <dl class={`stats ${extra}`}>{children}</dl>;
}

/** A time as people say it, with the exact one on hover. */
export function Ago({ at }: { at: number | undefined }) {
  const now = useNow(at !== undefined && Math.abs(Date.now() - at) < 120_000 ? 1000 : 15_000);
  if (at === undefined) return <>{UNKNOWN}</>;
  return (
    <time dateTime={isoTime(at)} title={absoluteTime(at)}>
      {relative(at, now)}
    </time>
  );
}

/** A choice among few, as radio buttons in a row. */
export function Segmented<T extends string>(props: {
  label: string;
  value: T;
  options: readonly { value: T; label: string; title?: string }[];
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="segmented">
      <legend class="unseen">{props.label}</legend>
      {props.options.map((option) => (
        <label key={option.value} title={option.title}>
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={option.value === props.value}
            onChange={() => props.onChange(option.value)}
          />
          <span>{option.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** A select with a visible label. */
export function Choice(props: {
  label: string;
  value: string;
  options: readonly (string | { value: string; label: string })[];
  onChange: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map((option) => {
          const { value, label } = typeof option === "string" ? { value: option, label: option } : option;
          return (
            <option key={value} value={value}>
              {label}
            </option>
          );
        })}
      </select>
    </label>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  const { tell } = useConnection();
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell("Copied"),
      () => tell("The browser does not let this page copy; select the text instead", "bad"),
    );
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" class="small" onClick={copy} aria-label={`Copy: ${text}`}>
        Copy
      </button>
    </div>
  );
}

/** An empty state that says what would fill it. */
export function Empty(props: { title: string; children?: ComponentChildren; command?: string | undefined }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

/** A problem in words, with the id under which the coordinator's log has it. */
export function Trouble({ error, onRetry }: { error: ApiError; onRetry?: (() => void) | undefined }) {
  return (
    <div class="trouble" role="alert">
      <p>
        <strong>{error.title}</strong>
        {error.detail && <span class="trouble-detail">{error.detail}</span>}
      </p>
      {error.requestId && (
        <p class="hint">
          Request <code>{error.requestId}</code>
        </p>
      )}
      {onRetry && (
        <button type="button" class="small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What to show until there is data: a quiet place holder of the same height, or why there is none. */
export function Pending(props: {
  resource: Resource<unknown>;
  lines?: number;
  what?: string;
  missing?: ComponentChildren;
}) {
  const { error, refresh } = props.resource;
  if (error?.missing) return <>{props.missing ?? <NotAvailable what={props.what} />}</>;
  if (error) return <Trouble error={error} onRetry={refresh} />;
  return (
    <div class="skeleton" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: props.lines ?? 3 }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}

export function NotAvailable({ what = "This" }: { what?: string | undefined }) {
  return <p class="not-available">{what} is not available from this coordinator.</p>;
}

/** A modal dialog: the browser's own, so that focus and Escape behave. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the browser paints: a key that is pressed at once must find the dialog open.
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => (before as HTMLElement | null)?.focus?.();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.wide ? "wide" : ""}
      aria-labelledby={id}
      onClose={props.onClose}
      onCancel={props.onClose}
    >
      <h2 id={id}>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** Asks before something that cannot be undone easily; shows the coordinator's refusal in place. */
export function Confirm(props: {
  title: string;
  children: ComponentChildren;
  action: string;
  danger?: boolean;
  run: () => Promise<void>;
  onClose: () => void;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await props.run();
      props.onClose();
    } catch (problem) {
      setError(problem as ApiError);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form onSubmit={run}>
        <div class="dialog-text">{props.children}</div>
        {error && <Trouble error={error} />}
        <div class="dialog-actions">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class={props.danger ? "danger" : "primary"} disabled={busy}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A share as a thin bar beside its figure. */
export function Share({
  value,
  text,
  tone = "good",
  mark,
}: {
  value: number;
  text: string;
  tone?: string;
  mark?: number | undefined;
}) {
  const at = (share: number) => Math.min(100, Math.max(0, share * 100));
  return (
    <span class="share">
      <svg viewBox="0 0 100 8" width="64" height="8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="share-track" width="100" height="8" />
        <rect class={`fill-${tone}`} width={at(value)} height="8" />
        {mark !== undefined && <rect class="share-mark" x={Math.min(at(mark), 98)} width="2" height="8" />}
      </svg>
      <span>{text}</span>
    </span>
  );
}

/** Name and value pairs of a client. */
export function Attributes({ value }: { value: Record<string, string> | undefined }) {
  const entries = Object.entries(value ?? {});
  if (entries.length === 0) return <span class="quiet">none</span>;
  return (
    <span class="chips">
      {entries.map(([name, text]) => (
        <span key={name} class="chip" title={`${name} = ${text}`}>
          <span class="chip-name">{name}</span> {text}
        </span>
      ))}
    </span>
  );
}
