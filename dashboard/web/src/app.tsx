// The whole page: the sign-in, or the view that the address names.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ServerClock } from "./api/clock";
import { Feed } from "./api/feed";
import { Api } from "./api/http";
import { NodeWatch } from "./api/nodes";
import { forgetToken, hasSession, markSession, type Stores, savedToken, saveToken, tokenInHash } from "./api/session";
import type { Who } from "./api/types";
import { links, type Route, useLocation } from "./router";
import { type Message, Shell } from "./shell";
import { type Connection, ConnectionContext, WhoContext } from "./ui/connection";
import { jobName } from "./ui/names";
import { Panel } from "./ui/parts";
import { ZoneContext } from "./ui/zone";
import { AccessView } from "./views/access";
import { ClientView } from "./views/client";
import { ClientsView } from "./views/clients";
import { CompareView } from "./views/compare";
import { JobView } from "./views/job";
import { NewJobView } from "./views/new-job";
import { OverviewView } from "./views/overview";
import { RoundView } from "./views/round";
import { SignIn } from "./views/sign-in";
import { SystemView } from "./views/system";
import { savedZone, saveZone, type Zone } from "./zone";

/** How long a message stays, in milliseconds. */
const MESSAGE_MS = 6_000;

const ENDED = "You were signed out: the token or session has ended.";
const NOT_KNOWN =
  "The coordinator does not know this token. It was revoked, has expired, or is of another coordinator.";

const stores = (): Stores => ({ session: sessionStorage, local: localStorage });

/**
 * Takes a token out of the address bar, so that it is neither seen nor bookmarked. The way back from the identity
 * provider brings the mark of a session.
 */
export function takeToken(): void {
  const go = (hash: string) => {
    window.history.replaceState(null, "", window.location.pathname + window.location.search + hash);
    // The views have read the address with the token in it.
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  if (window.location.hash === "#session") {
    markSession(stores(), true);
    go("#/");
    return;
  }
  const found = tokenInHash(window.location.hash);
  if (!found) return;
  saveToken(stores(), found.token, false);
  go(found.rest);
}

/** What requests are signed with. Without a token the browser sends the cookie of its session. */
interface Access {
  token: string | undefined;
}

function savedAccess(): Access | undefined {
  const token = savedToken(stores());
  return token !== undefined || hasSession(stores()) ? { token } : undefined;
}

/** The sign-in until there is a token or a session, then the view of the address. */
export function App() {
  const [access, setAccess] = useState(savedAccess);
  const [message, setMessage] = useState("");
  const { route } = useLocation();
  useEffect(() => {
    // A link with a token in a tab that is open already.
    const changed = () => {
      takeToken();
      setAccess(savedAccess());
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  const leave = (because: string) => {
    forgetToken(stores());
    markSession(stores(), false);
    setAccess(undefined);
    setMessage(because);
  };
  if (access === undefined) {
    const enter = (token: string, remember: boolean) => {
      saveToken(stores(), token, remember);
      setAccess({ token });
    };
    const enterBySession = () => {
      markSession(stores(), true);
      setAccess({ token: undefined });
    };
    return <SignIn why={message} onToken={enter} onSession={enterBySession} />;
  }
  return (
    <SignedIn
      key={access.token ?? ""}
      token={access.token}
      route={route}
      onRefused={leave}
      onSignedOut={() => leave("")}
    />
  );
}

/** The page with one token or session: it owns the connection and the messages. */
function SignedIn({
  token,
  route,
  onRefused,
  onSignedOut,
}: {
  token: string | undefined;
  route: Route;
  /** Gets the reason in words. */
  onRefused: (because: string) => void;
  onSignedOut: () => void;
}) {
  const [who, setWho] = useState<Who | null>();
  const worked = useRef(false);
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [zone, setZone] = useState(savedZone);
  const times = useMemo(() => {
    const choose = (chosen: Zone) => {
      saveZone(chosen);
      setZone(chosen);
    };
    return { zone, choose };
  }, [zone]);
  const connection = useMemo<Connection>(() => {
    const clock = new ServerClock();
    const refused = () => onRefused(token === undefined || worked.current ? ENDED : NOT_KNOWN);
    const api = new Api(token, refused, (server, sent, received) => clock.observe(server, sent, received));
    let last = 0;
    const notify: Connection["notify"] = (text, tone) => {
      last += 1;
      const id = last;
      setMessages((all) => [...all.slice(-2), { id, text, tone }]);
      setTimeout(() => setMessages((all) => all.filter((message) => message.id !== id)), MESSAGE_MS);
    };
    return { api, clock, feed: new Feed(api), notify };
  }, [token]);
  useEffect(() => {
    const known = (answer: Who) => {
      worked.current = true;
      setWho(answer);
    };
    connection.api.json<Who>("me").then(known, () => setWho(null));
  }, [connection]);
  const signOut = async (path: "logout" | "logout-everywhere") => {
    // A session that is over already cannot be ended; a token has none.
    if (token === undefined) await connection.api.send(path, { method: "POST" }).catch(() => {});
    onSignedOut();
  };
  useEffect(() => {
    const { feed } = connection;
    void feed.run();
    const watch = new NodeWatch(connection.api, () => feed.refresh());
    void watch.run();
    const hurry = () => feed.hurry();
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      feed.stop();
      watch.stop();
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
    };
  }, [connection]);
  useEffect(() => {
    document.title = titleOf(route);
  });
  useEffect(() => window.scrollTo(0, 0), [keyOf(route)]);
  return (
    <ConnectionContext.Provider value={connection}>
      <WhoContext.Provider value={who}>
        <ZoneContext.Provider value={times}>
          <Shell route={route} messages={messages} hasSession={token === undefined} onSignOut={signOut}>
            <View key={keyOf(route)} route={route} />
          </Shell>
        </ZoneContext.Provider>
      </WhoContext.Provider>
    </ConnectionContext.Provider>
  );
}

/** The view of a route. */
function View({ route }: { route: Route }) {
  switch (route.view) {
    case "overview":
      return <OverviewView />;
    case "new-job":
      return <NewJobView />;
    case "compare":
      return <CompareView />;
    case "job":
      return <JobView id={route.job} />;
    case "round":
      return <RoundView job={route.job} number={route.round} />;
    case "clients":
      return <ClientsView />;
    case "client":
      return <ClientView id={route.client} />;
    case "access":
      return <AccessView />;
    case "system":
      return <SystemView />;
    case "unknown":
      return (
        <>
          <h1>Not found</h1>
          <Panel title="This page does not exist">
            <p>
              <a href={links.overview()}>Back to the overview</a>
            </p>
          </Panel>
        </>
      );
  }
}

/** Views of different things are different views; the task of a round is in the query. */
function keyOf(route: Route): string {
  return Object.values(route).join("/");
}

function titleOf(route: Route): string {
  const part = {
    overview: () => "Overview",
    "new-job": () => "New job",
    compare: () => "Compare jobs",
    job: () => jobName((route as { job: string }).job) ?? "Job",
    round: () => `Round ${(route as { round: number }).round}`,
    clients: () => "Clients",
    client: () => "Client",
    access: () => "Access",
    system: () => "System",
    unknown: () => "Not found",
  }[route.view]();
  return `${part} · Tributary`;
}
