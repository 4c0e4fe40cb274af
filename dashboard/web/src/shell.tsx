// The frame of each view: the bar, the state of the live feed, messages, and announcements for screen readers.

import type { ComponentChildren } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { FeedEvent } from "./api/types";
import { shortId, timeOfDay, words, zoneName } from "./lib/format";
import { links, type Route } from "./router";
import { applyTheme, nextTheme, savedTheme, type Theme } from "./theme";
import { useConnection, useFeedState, useMay, WhoContext } from "./ui/connection";
import { useKeys } from "./ui/keys";
import { Mark } from "./ui/mark";
import { jobName } from "./ui/names";
import { Tips } from "./ui/tips";
import { useZone, ZoneContext } from "./ui/zone";
import { isLocalUtc } from "./zone";

/** Least time between two announcements, in milliseconds: a fast job would keep a screen reader busy. */
const ANNOUNCE_MS_MIN = 3_000;

const SECTIONS: readonly { label: string; href: string; views: readonly Route["view"][]; admin?: true }[] = [
  { label: "Overview", href: links.overview(), views: ["overview", "job", "round", "new-job", "compare"] },
  { label: "Clients", href: links.clients(), views: ["clients", "client"] },
  { label: "Access", href: links.access(), views: ["access"], admin: true },
  { label: "System", href: links.system(), views: ["system"] },
];

/** A short note to the person, such as "digits is paused". */
export interface Message {
  id: number;
  text: string;
  tone: "good" | "bad" | undefined;
}

/** Bar and messages around a view. */
export function Shell({
  route,
  messages,
  hasSession,
  onSignOut,
  children,
}: {
  route: Route;
  messages: readonly Message[];
  /** Signed in by an account, whose other sessions can be ended, too. */
  hasSession: boolean;
  onSignOut: (path: "logout" | "logout-everywhere") => void;
  children: ComponentChildren;
}) {
  const main = useRef<HTMLElement>(null);
  const away = useAwaySince();
  const isAdmin = useMay("admin");
  useKeys();
  const skip = (event: Event) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: readers expect a link; the router owns its fragment */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="bar">
        <div class="bar-inner">
          <a class="brand" href={links.overview()} aria-label="Tributary, overview">
            <Mark />
            <span>Tributary</span>
          </a>
          <nav class="sections" aria-label="Sections">
            {SECTIONS.filter((section) => isAdmin || !section.admin).map((section) => (
              <a
                key={section.label}
                href={section.href}
                aria-current={section.views.includes(route.view) ? "page" : undefined}
              >
                {section.label}
              </a>
            ))}
          </nav>
          <div class="bar-end">
            <LiveState />
            <ZoneSwitch />
            <ThemeSwitch />
            <SignedInAs />
            <button type="button" class="plain" onClick={() => onSignOut("logout")}>
              Sign out
            </button>
            {hasSession && (
              <button
                type="button"
                class="plain"
                onClick={() => onSignOut("logout-everywhere")}
                title="Ends the sessions of this account in all browsers"
              >
                Everywhere
              </button>
            )}
          </div>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} class={away === undefined ? "" : "is-away"}>
        {away !== undefined && <Away since={away} />}
        {children}
      </main>
      <Announcer />
      <Tips />
      <div class="messages" role="status" aria-live="polite">
        {messages.map((message) => (
          <p key={message.id} class={`message ${message.tone ?? ""}`}>
            {message.text}
          </p>
        ))}
      </div>
    </>
  );
}

/** Name and role of the operator. */
function SignedInAs() {
  const who = useContext(WhoContext);
  if (!who) return null;
  const role = who.population === undefined ? who.role : `${who.role} of ${who.population}`;
  return (
    <span class="signed-in-as" data-tip={`${who.name || who.actor}, ${role}`}>
      {who.name || shortId(who.actor)} <span class="quiet">{role}</span>
    </span>
  );
}

const FEED_WORDS = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", unavailable: "Every 5 s" };

/** The state of the live feed in one word. */
function LiveState() {
  const state = useFeedState();
  const title = {
    connecting: "The stream of events is being opened",
    live: "Changes appear as they happen",
    reconnecting: "The coordinator does not answer; what you see may be old. The page tries again by itself",
    unavailable: "This coordinator has no stream of events; the page looks every 5 seconds",
  }[state];
  return (
    <span class={`live live-${state}`} role="status" data-tip={title}>
      <i aria-hidden="true" />
      <span>{FEED_WORDS[state]}</span>
    </span>
  );
}

/** Since when the coordinator does not answer, on its clock; undefined while it does. */
function useAwaySince(): number | undefined {
  const state = useFeedState();
  const { clock } = useConnection();
  const [since, set] = useState<number>();
  useEffect(() => {
    set((before) => (state === "reconnecting" ? (before ?? clock.now()) : undefined));
  }, [state, clock]);
  return since;
}

/** While the coordinator is away: since when what is shown is old. */
function Away({ since }: { since: number }) {
  const zone = useZone();
  return (
    <p class="away" role="alert">
      <b>The coordinator is unreachable.</b> What you see is as of {timeOfDay(since, zone)}; countdowns stand still. The
      page tries again every second, and later every 15 seconds.
    </p>
  );
}

/** A button with the zone of all times, which changes between that of the browser and UTC. */
function ZoneSwitch() {
  const { zone, choose } = useContext(ZoneContext);
  if (isLocalUtc()) return null;
  const now = Date.now();
  const other = zone === "utc" ? "local" : "utc";
  const says = `${zoneName(now, zone)}: times are in ${NAMES[zone]}. Change to ${NAMES[other]}`;
  return (
    <button type="button" class="plain zone" onClick={() => choose(other)} data-tip={says} aria-label={says}>
      {zoneName(now, zone)}
    </button>
  );
}

const NAMES = { local: "the zone of this browser", utc: "UTC" } as const;

/** A button that goes through the themes: system, light, dark. */
function ThemeSwitch() {
  const [theme, set] = useState<Theme>(savedTheme);
  const change = () => {
    const next = nextTheme(theme);
    applyTheme(next);
    set(next);
  };
  const next = nextTheme(theme);
  return (
    <button
      type="button"
      class="plain icon"
      onClick={change}
      title={`Colours: ${theme}. Change to ${next}`}
      aria-label={`Colours: ${theme}. Change to ${next}`}
    >
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle
          cx="8"
          cy="8"
          r="5.5"
          fill={theme === "dark" ? "currentColor" : "none"}
          stroke="currentColor"
          stroke-width="1.5"
        />
        {theme === "system" && <path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor" />}
      </svg>
    </button>
  );
}

/** Announces the begin and end of rounds to screen readers. */
function Announcer() {
  const { feed } = useConnection();
  const [text, set] = useState("");
  useEffect(() => {
    let last = 0;
    return feed.onEvent((event) => {
      const said = sentence(event);
      const now = performance.now();
      if (said === undefined || now - last < ANNOUNCE_MS_MIN) return;
      last = now;
      set(said);
    });
  }, [feed]);
  return (
    <p class="unseen" aria-live="polite">
      {text}
    </p>
  );
}

/** The announcement of an event; undefined for events that are not announced. */
export function sentence(event: FeedEvent): string | undefined {
  // A new name or tag is no news for the ear.
  if (event.assignment !== undefined || event.cause === "filing") return undefined;
  const job = jobName(event.job) ?? "A job";
  const cause = event.cause && event.cause !== "operator" ? `: ${words(event.cause)}` : "";
  if (event.became === "taken_over") return `${job}: ${event.cause ?? "another coordinator took over"}`;
  if (event.round === undefined) return `${job} is ${words(event.became)}`;
  if (event.task === "evaluate") return undefined;
  return event.became === "committed" || event.became === "abandoned" || event.became === "training"
    ? `${job}: round ${event.round} is ${words(event.became)}${cause}`
    : undefined;
}
