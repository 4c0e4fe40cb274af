// Fields and dialogs of forms that create something.

import type { ComponentChildren } from "preact";
import { useAction } from "./action";
import { Dialog, Trouble } from "./parts";

/** The name of something that is created, as the coordinator accepts names. */
export function NameField({ value, onInput }: { value: string; onInput: (value: string) => void }) {
  return (
    <Field
      label="Name"
      value={value}
      onInput={onInput}
      required
      maxLength={64}
      pattern="[A-Za-z0-9_.\-]+"
      hint="letters, digits, -, _ and ."
    />
  );
}

/** A text field with its name and a hint below it. */
export function Field(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: string;
  /** Why the value is not taken; shown in place of the hint. */
  wrong?: string | undefined;
  /** Hides what is typed. */
  secret?: boolean;
  required?: boolean;
  placeholder?: string;
  pattern?: string;
  maxLength?: number;
  autoComplete?: string;
}) {
  const { label, hint, wrong, onInput, secret, ...input } = props;
  const kind = secret ? ({ type: "password" } as const) : ({ type: "text" } as const);
  return (
    <label class={`field ${wrong ? "wrong" : ""}`}>
      <span class="field-label">{label}</span>
      <input
        autoComplete="off"
        {...input}
        {...kind}
        aria-invalid={wrong ? "true" : undefined}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {(wrong ?? hint) && <span class="field-hint">{wrong ?? hint}</span>}
    </label>
  );
}

/** A select that stands among fields. */
export function FieldChoice(props: {
  label: string;
  value: string;
  options: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      <span class="field-label">{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A dialog that creates something, and then shows `done` if there is something to show, else closes. */
export function CreateDialog(props: {
  title: string;
  /** Label of the button. */
  action: string;
  /** Throws an `ApiError` when the coordinator refuses. */
  run: () => Promise<void>;
  onClose: () => void;
  /** Whether the fields can be sent. */
  valid?: boolean;
  wide?: boolean;
  /** Shown in place of the form once there is something. */
  done?: ComponentChildren;
  children: ComponentChildren;
}) {
  const { busy, error, run } = useAction(props.run);
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.wide ?? false}>
      {props.done ? (
        <>
          {props.done}
          <div class="dialog-actions">
            <button type="button" class="primary" onClick={props.onClose}>
              Done
            </button>
          </div>
        </>
      ) : (
        <form class="filing" onSubmit={run}>
          {props.children}
          {error && <Trouble error={error} />}
          <div class="dialog-actions">
            <button type="button" onClick={props.onClose}>
              Cancel
            </button>
            <button type="submit" class="primary" disabled={busy || props.valid === false}>
              {props.action}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
