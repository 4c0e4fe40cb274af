// The small parts that every view is made of.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import type { ApiError } from "../api/http";
import { absoluteTime, dateTime, isoTime, relative, UNKNOWN, zoneName } from "../lib/format";
import { useAction } from "./action";
import { type Resource, useConnection, useNow } from "./connection";
import { useZone } from "./zone";

/** A titled part of a view. */
export function Panel(props: {
  title: string;
  /** A short remark beside the title. */
  hint?: ComponentChildren;
  /** Buttons or choices at the end of the title's line. */
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

/** A figure with its name, for use in `Stats`. */
export function Stat(props: {
  label: string;
  value: ComponentChildren;
  /** A second figure or a remark in small print. */
  detail?: ComponentChildren;
  /** Shown on hover. */
  title?: string | undefined;
}) {
  return (
    <div class="stat" data-tip={props.title}>
      <dt>{props.label}</dt>
      <dd>
        {props.value}
        {props.detail !== undefined && <small>{props.detail}</small>}
      </dd>
    </div>
  );
}

/** A list of `Stat`. */
export function Stats({ children, class: extra = "" }: { children: ComponentChildren; class?: string }) {
  return <dl class={`stats ${extra}`}>{children}</dl>;
}

/** A time relative to now, such as "3 min ago", with the exact time on hover. `at` is in milliseconds since 1970. */
export function Ago({ at }: { at: number | undefined }) {
  const now = useNow(at !== undefined && Math.abs(Date.now() - at) < 120_000 ? 1000 : 15_000);
  const zone = useZone();
  if (at === undefined) return <>{UNKNOWN}</>;
  return (
    <time dateTime={isoTime(at)} data-tip={absoluteTime(at, zone)}>
      {relative(at, now)}
    </time>
  );
}

/** A time to the second with its zone, in a sentence. */
export function At({ at }: { at: number }) {
  return <time dateTime={isoTime(at)}>{absoluteTime(at, useZone())}</time>;
}

/** A time to the second with its age, for the cells of a `zoned` column. */
export function When({ at }: { at: number | undefined }) {
  const zone = useZone();
  if (at === undefined) return <>{UNKNOWN}</>;
  // The head names the zone of today; half a year away it may be another.
  const other = zoneName(at, zone) !== zoneName(Date.now(), zone);
  return (
    <span class="when">
      {other ? absoluteTime(at, zone) : dateTime(at, zone)}{" "}
      <small>
        <Ago at={at} />
      </small>
    </span>
  );
}

/** A word with an explanation, which is shown on hover, on touch and on focus. */
export function Hint({ text, children }: { text: string | undefined; children: ComponentChildren }) {
  if (!text) return <>{children}</>;
  return (
    <span class="hinted" data-tip={text} tabIndex={0}>
      {children}
    </span>
  );
}

/** The tags of a job as chips. */
export function Tags({ tags }: { tags: readonly string[] | undefined }) {
  if (!tags || tags.length === 0) return null;
  return (
    <span class="chips tags">
      {tags.map((tag) => (
        <span key={tag} class="chip">
          {tag}
        </span>
      ))}
    </span>
  );
}

/** A choice among few options, as radio buttons in a row. */
export function Segmented<T extends string>(props: {
  /** Names the group for screen readers. */
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
        <label key={option.value} data-tip={option.title}>
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

/** A select with a visible label. An option that is a text is its own label. */
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

/** A command line with a button that copies it. */
export function Command({ text }: { text: string }) {
  const { notify } = useConnection();
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => notify("Copied"),
      () => notify("The browser does not let this page copy; select the text instead", "bad"),
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

/** Stands where a list or a chart is empty: what is missing, why, and the command that would fill it. */
export function Empty(props: { title: string; children?: ComponentChildren; command?: string | undefined }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

/** A problem of the API: title, detail, and the request's id in the coordinator's log. */
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

/** Stands in for a resource without data: a skeleton while it loads, the problem when it failed. */
export function Pending(props: {
  resource: Resource<unknown>;
  /** Lines of the skeleton. */
  lines?: number;
  /** Subject of the sentence when the coordinator does not have it, such as "The list of rounds". */
  what?: string;
  /** Shown instead of that sentence. */
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

/** Says that the coordinator does not have something. `what` is the subject of the sentence. */
export function NotAvailable({ what = "This" }: { what?: string | undefined }) {
  return <p class="not-available">{what} is not available from this coordinator.</p>;
}

/** A modal dialog. It is the browser's own, which handles focus and Escape. */
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

/** Asks before an action. It stays open and shows the problem when the coordinator refuses. */
export function Confirm(props: {
  title: string;
  children: ComponentChildren;
  /** Label of the button that runs the action. */
  action: string;
  /** Colours the button: the action cannot be undone. */
  danger?: boolean;
  /** Throws an `ApiError` when the coordinator refuses. */
  run: () => Promise<void>;
  onClose: () => void;
}) {
  const { busy, error, run } = useAction(async () => {
    await props.run();
    props.onClose();
  });
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

/** A share as a thin bar and a figure. */
export function Share({
  value,
  text,
  tone = "good",
  mark,
}: {
  /** From 0 to 1. */
  value: number;
  text: string;
  /** A state, whose colour the bar takes. */
  tone?: string;
  /** A second share, drawn as a line across the bar. */
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

/** The attributes of a client as chips. */
export function Attributes({
  value,
  granted = {},
}: {
  value: Record<string, string> | undefined;
  /** Those that the enrolment token granted. */
  granted?: Record<string, string> | undefined;
}) {
  const entries = Object.entries(value ?? {});
  if (entries.length === 0) return <span class="quiet">(none)</span>;
  return (
    <span class="chips">
      {entries.map(([name, text]) => (
        <span key={name} class="chip" data-tip={`${name} = ${text}${name in granted ? ", granted by its token" : ""}`}>
          <span class="chip-name">{name}</span> {text}
          {name in granted && <span class="quiet"> granted</span>}
        </span>
      ))}
    </span>
  );
}
