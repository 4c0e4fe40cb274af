// The whole page: the sign-in, or the view that the address names.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ServerClock } from "./api/clock";
import { Feed } from "./api/feed";
import { Api } from "./api/http";
import { forgetToken, type Stores, savedToken, saveToken, tokenInHash } from "./api/session";
import { links, type Route, useLocation } from "./router";
import { type Message, Shell } from "./shell";
import { type Connection, ConnectionContext } from "./ui/connection";
import { jobName } from "./ui/names";
import { Empty, Panel } from "./ui/parts";
import { ClientView } from "./views/client";
import { ClientsView } from "./views/clients";
import { JobView } from "./views/job";
import { NewJobView } from "./views/new-job";
import { OverviewView } from "./views/overview";
import { RoundView } from "./views/round";
import { SignIn } from "./views/sign-in";
import { SystemView } from "./views/system";

/** How long a message stays, in milliseconds. */
const MESSAGE_MS = 6_000;

const stores = (): Stores => ({ session: sessionStorage, local: localStorage });

/** Takes a token out of the address bar, so that it is neither seen nor bookmarked. */
export function takeToken(): void {
  const found = tokenInHash(window.location.hash);
  if (!found) return;
  saveToken(stores(), found.token, false);
  window.history.replaceState(null, "", window.location.pathname + window.location.search + found.rest);
}

/** The sign-in until there is a token, then the view of the address. */
export function App() {
  const [token, setToken] = useState(() => savedToken(stores()));
  const [ended, setEnded] = useState(false);
  const { route } = useLocation();
  useEffect(() => {
    // A link with a token in a tab that is open already.
    const changed = () => {
      takeToken();
      setToken(savedToken(stores()));
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  const leave = (because: "asked" | "refused") => {
    forgetToken(stores());
    setToken(undefined);
    setEnded(because === "refused");
  };
  if (token === undefined) {
    const enter = (given: string, remember: boolean) => {
      saveToken(stores(), given, remember);
      setToken(given);
    };
    return <SignIn ended={ended} onToken={enter} />;
  }
  return (
    <SignedIn
      key={token}
      token={token}
      route={route}
      onRefused={() => leave("refused")}
      onSignOut={() => leave("asked")}
    />
  );
}

/** The page with one token: it owns the connection and the messages. */
function SignedIn({
  token,
  route,
  onRefused,
  onSignOut,
}: {
  token: string;
  route: Route;
  onRefused: () => void;
  onSignOut: () => void;
}) {
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const connection = useMemo<Connection>(() => {
    const clock = new ServerClock();
    const api = new Api(token, onRefused, (server, sent, received) => clock.observe(server, sent, received));
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
    const { feed } = connection;
    void feed.run();
    const hurry = () => feed.hurry();
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      feed.stop();
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
      <Shell route={route} messages={messages} onSignOut={onSignOut}>
        <View key={keyOf(route)} route={route} />
      </Shell>
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
    case "job":
      return <JobView id={route.job} />;
    case "round":
      return <RoundView job={route.job} number={route.round} />;
    case "clients":
      return <ClientsView />;
    case "client":
      return <ClientView id={route.client} />;
    case "system":
      return <SystemView />;
    case "unknown":
      return (
        <Panel title="Nothing here">
          <Empty title="This page does not exist">
            <a href={links.overview()}>Back to the overview</a>
          </Empty>
        </Panel>
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
    job: () => jobName((route as { job: string }).job) ?? "Job",
    round: () => `Round ${(route as { round: number }).round}`,
    clients: () => "Clients",
    client: () => "Client",
    system: () => "System",
    unknown: () => "Nothing here",
  }[route.view]();
  return `${part} · Tributary`;
}
