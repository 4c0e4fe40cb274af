// Asks for the operator token.

import { useState } from "preact/hooks";
import { Api, type ApiError } from "../api/http";
import { looksLikeOperatorToken } from "../api/session";
import { Mark } from "../ui/mark";

/** The form for the token. `ended` says that an earlier token was refused; `onToken` gets a token that works. */
export function SignIn({ ended, onToken }: { ended: boolean; onToken: (token: string, remember: boolean) => void }) {
  const [token, setToken] = useState("");
  const [remember, setRemember] = useState(false);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState(ended ? "The token no longer works: it was revoked or has expired." : "");
  const submit = async (event: Event) => {
    event.preventDefault();
    const text = token.trim();
    if (!looksLikeOperatorToken(text)) {
      setMessage(text ? "An operator token begins with tributary_operator_." : "Paste the operator token first.");
      return;
    }
    setBusy(true);
    try {
      await new Api(text).send("populations", { query: { limit: 1 } });
      onToken(text, remember);
    } catch (error) {
      const problem = error as ApiError;
      setMessage(
        problem.status === 401 || problem.status === 403
          ? "The coordinator does not know this token."
          : problem.message,
      );
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form class="panel" onSubmit={submit} noValidate>
        <div class="brand">
          <Mark />
          <h1>Tributary</h1>
        </div>
        <p class="quiet">Federated learning, round by round.</p>
        <label class="field">
          <span class="field-label">Operator token</span>
          <input
            type="password"
            name="token"
            value={token}
            placeholder="tributary_operator_…"
            autoComplete="current-password"
            spellcheck={false}
            aria-invalid={message ? "true" : undefined}
            aria-describedby="sign-in-help"
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <p class="sign-in-message" role="alert">
          {message}
        </p>
        <label class="check-line">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          Remember it on this device
        </label>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        <p class="hint" id="sign-in-help">
          <code>tributary serve</code> prints it at its first start. <code>tributary token create --operator</code>{" "}
          makes another one.
        </p>
      </form>
    </main>
  );
}
