// The groups of a round that add up among themselves: who is next to whom, what each sent, and who stood in the way.

import type { RingAttempt, RingPart, RingState, RoundDetail, StallKind, StarReason } from "../api/types";
import { bytes, count, duration, plural } from "../lib/format";
import { Panel, Stat, Stats } from "../ui/parts";

/** Radius of the circle in a drawing of 100 by 100. */
const RADIUS = 42;

const STATES: Record<RingState, string> = {
  formed: "members add up",
  agreed: "members have one sum, and one of them brings it",
  counted: "the sum counts for all of them",
  failed: "no sum",
};

const STALLS: Record<StallKind, string> = {
  unreachable: "could not be reached",
  silent: "fell silent",
  closed: "closed its connection",
  wrong: "sent what it must not",
};

const STARS: Record<StarReason, string> = {
  time: "the time for groups was over",
  attempts: "no further group may form",
  too_few: "too few were left for a group",
  disagreement: "no majority had the same sum",
  links: "a group would send more through the coordinator than their updates are",
};

/** The groups of a round; nothing in a job whose updates the coordinator adds up. */
export function RingPanel({ data }: { data: RoundDetail }) {
  const { ring, round } = data;
  if (!ring) return null;
  const counted = ring.attempts.find(({ state }) => state === "counted");
  const relayed = ring.attempts.flatMap(({ members }) => members.map(({ relayed_bytes: bytes }) => bytes ?? 0));
  const sent = (counted?.members ?? []).map(({ bytes_sent: sent }) => sent ?? 0);
  const apart = (counted?.members ?? []).flatMap(({ distance }) => (distance == null ? [] : [distance]));
  const star = ring.star ?? undefined;
  return (
    <Panel title="Groups" hint="members add up among themselves, and bring one sum">
      <Stats>
        <Stat label="Attempts" value={count(ring.attempts.length)} />
        <Stat
          label="In the sum"
          value={plural(counted?.members.length ?? 0, "client")}
          detail={counted?.sha256 ? `SHA-256 ${counted.sha256.slice(0, 12)}` : undefined}
        />
        <Stat label="To the coordinator" value={bytes(round.bytes_up)} detail="updates and sums" />
        <Stat
          label="Among members"
          value={bytes(sent.reduce((total, sent) => total + sent, 0))}
          detail={sent.length > 0 ? `${bytes(Math.max(...sent))} at most from one` : undefined}
        />
        {ring.attempts.some(({ members }) => members.some(({ relayed }) => relayed)) && (
          <Stat
            label="Relayed"
            value={bytes(relayed.reduce((total, more) => total + more, 0))}
            detail="among members, through the coordinator"
          />
        )}
        {apart.length > 0 && (
          <Stat
            label="From the mean"
            value={Math.sqrt(apart.reduce((total, distance) => total + distance ** 2, 0) / apart.length).toPrecision(3)}
            detail="distance of the members' models"
          />
        )}
      </Stats>
      {star && <p>Members send their own updates to the coordinator, because {STARS[star]}.</p>}
      {ring.waiting > 0 && <p>{plural(ring.waiting, "client")} finished, in no open group.</p>}
      <ul class="groups">
        {ring.attempts.map((attempt) => (
          <li key={attempt.id}>
            <Ring attempt={attempt} />
            <p>
              <strong>
                Attempt {attempt.number}, {plural(attempt.members.length, "member")}
                {(attempt.exchanged ?? 0) > 0 && `, from exchange ${attempt.exchanged} on`}
              </strong>
              : {STATES[attempt.state]}.
            </p>
            {stalls(attempt).map((text) => (
              <p class="quiet" key={text}>
                {text}
              </p>
            ))}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** What members said of those that they could not go on with. */
function stalls({ members }: RingAttempt): string[] {
  const told = members.filter(({ stall }) => stall);
  return told.map(
    ({ client_number: by, stall }) =>
      `Client ${by}: client ${stall?.client_number} ${STALLS[stall?.what ?? "silent"]} in step ${stall?.step}.`,
  );
}

/** What a member did, in words. */
function did(member: RingPart): string {
  const { client_number: number, brings, took_ms: took, bytes_sent: sent, sent_kbit_s: kbit } = member;
  if (took == null) return `client ${number} has no sum`;
  const line = kbit == null ? "" : ` at ${(kbit / 1e3).toFixed(1)} Mbit/s`;
  return `client ${number}: ${bytes(sent ?? 0)} sent${line}, ${duration(took)}${brings ? ", brought the sum" : ""}`;
}

/** Members around a circle, each joined to the next one. */
function Ring({ attempt }: { attempt: RingAttempt }) {
  const { members } = attempt;
  const blamed = new Set(members.map(({ stall }) => stall?.client_number));
  const places = members.map((_, index) => {
    const angle = (2 * Math.PI * index) / members.length - Math.PI / 2;
    return { x: 50 + RADIUS * Math.cos(angle), y: 50 + RADIUS * Math.sin(angle) };
  });
  const dot = Math.max(1.2, Math.min(4, 90 / Math.max(1, members.length)));
  const className = (member: RingPart) => {
    if (blamed.has(member.client_number)) return "came-lost";
    return member.outcome ? "came-opened" : "came-joined";
  };
  return (
    <svg class="group-circle" viewBox="0 0 100 100" role="img" aria-label={`A ring of ${members.length} clients`}>
      {places.map((from, index) => {
        const to = places[(index + 1) % places.length] ?? from;
        const className = members[index]?.relayed ? "relayed" : undefined;
        return <line key={`${from.x} ${from.y}`} class={className} x1={from.x} y1={from.y} x2={to.x} y2={to.y} />;
      })}
      {members.map((member, index) => (
        <circle
          key={member.client_number}
          class={className(member)}
          cx={places[index]?.x}
          cy={places[index]?.y}
          r={dot}
        >
          <title>{did(member)}</title>
        </circle>
      ))}
    </svg>
  );
}
