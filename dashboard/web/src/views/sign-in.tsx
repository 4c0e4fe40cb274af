// Asks for the operator token, or for the name and password of an account; or leads to the identity provider.

import { useEffect, useState } from "preact/hooks";
import { Api, type ApiError, apiUrl } from "../api/http";
import { looksLikeOperatorToken } from "../api/session";
import type { SignInWays } from "../api/types";
import { Mark } from "../ui/mark";

interface Props {
  /** Why the person is here again; empty at first. */
  why: string;
  /** Gets a token that works. */
  onToken: (token: string, remember: boolean) => void;
  /** The browser has a session now. */
  onSession: () => void;
}

/** The form for the token or, in its place, the one for an account. */
export function SignIn({ why, onToken, onSession }: Props) {
  const [byAccount, setByAccount] = useState(false);
  const [message, setMessage] = useState(why);
  const [hasProvider, setHasProvider] = useState(false);
  useEffect(() => {
    // Without an answer there is only the form.
    const ways = new Api(undefined).json<SignInWays>("login");
    ways.then(({ provider }) => setHasProvider(provider)).catch(() => {});
  }, []);
  const change = () => {
    setMessage("");
    setByAccount(!byAccount);
  };
  return (
    <main class="sign-in">
      <div class="panel">
        <div class="brand">
          <Mark />
          <h1>Tributary</h1>
        </div>
        <p class="quiet">Federated learning, round by round.</p>
        {byAccount ? (
          <AccountForm message={message} setMessage={setMessage} onSession={onSession} />
        ) : (
          <TokenForm message={message} setMessage={setMessage} onToken={onToken} />
        )}
        {hasProvider && (
          <a class="button" href={apiUrl("oidc/login")}>
            Continue with your organisation
          </a>
        )}
        <button type="button" class="plain" onClick={change}>
          {byAccount ? "Use an operator token" : "Use an account"}
        </button>
      </div>
    </main>
  );
}

interface FormProps {
  message: string;
  setMessage: (message: string) => void;
}

function TokenForm({ message, setMessage, onToken }: FormProps & Pick<Props, "onToken">) {
  const [token, setToken] = useState("");
  const [remember, setRemember] = useState(false);
  const [busy, setBusy] = useState(false);
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
    <form onSubmit={submit} noValidate>
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
        <code>tributary serve</code> prints it at its first start. Another one:{" "}
        <code>tributary token create --operator ROLE</code>
      </p>
    </form>
  );
}

function AccountForm({ message, setMessage, onSession }: FormProps & Pick<Props, "onSession">) {
  const [account, setAccount] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!account.trim() || !password) {
      setMessage("Enter the account and its password first.");
      return;
    }
    setBusy(true);
    try {
      await new Api(undefined).send("login", { method: "POST", body: { account: account.trim(), password } });
      onSession();
    } catch (error) {
      const problem = error as ApiError;
      setMessage(problem.status === 401 ? "The account or the password is wrong." : problem.message);
      setPassword("");
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit} noValidate>
      <label class="field">
        <span class="field-label">Account</span>
        <input
          type="text"
          name="account"
          value={account}
          autoComplete="username"
          autoCapitalize="none"
          spellcheck={false}
          aria-invalid={message ? "true" : undefined}
          onInput={(event) => setAccount(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span class="field-label">Password</span>
        <input
          type="password"
          name="password"
          value={password}
          autoComplete="current-password"
          aria-invalid={message ? "true" : undefined}
          aria-describedby="sign-in-help"
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
      <p class="sign-in-message" role="alert">
        {message}
      </p>
      <button type="submit" class="primary" disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      <p class="hint" id="sign-in-help">
        An admin makes accounts: <code>tributary account create NAME --role ROLE</code>
      </p>
    </form>
  );
}
