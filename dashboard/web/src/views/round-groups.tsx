// The groups of a round whose updates are masked: who is in each, how far they came, what became of them.

import type { GroupFailure, GroupProgress, GroupStage, RoundDetail, RoundGroup } from "../api/types";
import { count, plural } from "../lib/format";
import { Panel, Stat, Stats } from "../ui/parts";

/** Most groups that are drawn. */
const GROUPS_SHOWN = 24;
/** Most members whose chords are drawn: beyond them a circle is all chords. */
const CHORDS_MEMBERS_MAX = 64;
/** Radius of the circle in a drawing of 100 by 100. */
const RADIUS = 42;

const STAGES: Record<GroupStage, string> = {
  sharing: "members share their secrets",
  masking: "members send masked updates",
  agreeing: "members agree on who is left",
  unmasking: "members open the sum",
  summed: "the sum is open",
  failed: "no sum",
};

const FAILURES: Record<GroupFailure, string> = {
  too_few_members: "too few members sent their shares",
  too_few_survivors: "too few members sent their masked updates",
  too_few_signatures: "too few members signed who was left",
  too_few_shares: "too few shares came to open the sum",
  false_shares: "shares of a secret were false",
  norm: "the sum was longer than its members could make it",
  stopped: "an operator stopped the job",
  round_ended: "the round ended first",
  fault: "what the coordinator stored of it cannot be read",
};

const PROGRESS: Record<GroupProgress, string> = {
  joined: "has joined",
  shared: "has shared its secrets",
  masked: "has sent its masked update",
  signed: "has signed who is left",
  opened: "counts, and has helped to open the sum",
  lost: "was lost: its update does not count",
};

/** The groups of a round; nothing for a round whose updates the coordinator reads. */
export function GroupsPanel({ data }: { data: RoundDetail }) {
  const { groups = [], waiting_for_group: waiting = 0 } = data;
  if (groups.length === 0 && waiting === 0) return null;
  const members = groups.flatMap((group) => group.members);
  const summed = groups.filter((group) => group.stage === "summed");
  const counted = summed.flatMap((group) => group.members).filter(({ came }) => isCounted(came));
  return (
    <Panel title="Groups" hint={unseen(groups) ? "nobody here has seen an update of this round" : undefined}>
      <Stats>
        <Stat label="Groups" value={count(groups.length)} detail={`${count(summed.length)} with a sum`} />
        <Stat
          label="In sums"
          value={plural(counted.length, "client")}
          detail={`of ${count(members.length)} in groups`}
        />
        <Stat label="Waiting" value={plural(waiting, "client")} detail="for a group" />
        <Stat
          label="Lost"
          value={plural(members.filter(({ came }) => came === "lost").length, "client")}
          detail="after they joined"
        />
      </Stats>
      <ul class="groups">
        {groups.slice(0, GROUPS_SHOWN).map((group) => (
          <li key={group.id}>
            <Circle group={group} />
            <p>
              <strong>{plural(group.members.length, "member")}</strong>: {STAGES[group.stage]}
              {group.reason && `, because ${FAILURES[group.reason]}`}.
            </p>
            <p class="quiet">
              {needs(group)} {group.signed && "Its members sign who they are and who is left."}
            </p>
          </li>
        ))}
      </ul>
      {groups.length > GROUPS_SHOWN && <p class="quiet">And {count(groups.length - GROUPS_SHOWN)} more groups.</p>}
    </Panel>
  );
}

/** Whether every update so far went into a sum of a group. */
function unseen(groups: readonly RoundGroup[]): boolean {
  return groups.some((group) => group.stage === "summed");
}

function isCounted(came: GroupProgress): boolean {
  return came === "masked" || came === "signed" || came === "opened";
}

/** What the losses of a group mean for its sum. */
function needs({ members, survivors_min, threshold, stage }: RoundGroup): string {
  const lost = members.filter(({ came }) => came === "lost").length;
  const bears = members.length - survivors_min;
  if (stage === "summed" || stage === "failed") return `${count(lost)} lost; it could bear ${count(bears)}.`;
  return `It bears ${plural(bears, "lost member")}, and opens with ${plural(threshold, "share")} of each secret.`;
}

/** A circle of the members, with a chord for each pair that shares a mask. */
function Circle({ group }: { group: RoundGroup }) {
  const places = group.members.map((_, index) => {
    const angle = (2 * Math.PI * index) / group.members.length - Math.PI / 2;
    return { x: 50 + RADIUS * Math.cos(angle), y: 50 + RADIUS * Math.sin(angle) };
  });
  const size = places.length;
  const reach = Math.min(Math.ceil(group.degree / 2), Math.floor(size / 2));
  const chords = size > CHORDS_MEMBERS_MAX ? [] : places.flatMap((from, index) => chordsOf(places, from, index, reach));
  const dot = Math.max(1.2, Math.min(4, 90 / Math.max(1, size)));
  return (
    <svg class="group-circle" viewBox="0 0 100 100" role="img" aria-label={`A group of ${size} clients`}>
      {chords.map(([from, to]) => (
        <line key={`${from.x} ${from.y} ${to.x} ${to.y}`} x1={from.x} y1={from.y} x2={to.x} y2={to.y} />
      ))}
      {group.members.map((member, index) => (
        <circle
          key={member.client_number}
          class={`came-${member.came}`}
          cx={places[index]?.x}
          cy={places[index]?.y}
          r={dot}
        >
          <title>
            client {member.client_number} {PROGRESS[member.came]}
          </title>
        </circle>
      ))}
    </svg>
  );
}

type Place = { x: number; y: number };

function chordsOf(places: readonly Place[], from: Place, index: number, reach: number): [Place, Place][] {
  const chords: [Place, Place][] = [];
  for (let step = 1; step <= reach; step += 1) {
    const other = places[(index + step) % places.length];
    // Opposite members would be joined from both ends.
    if (other && !(2 * step === places.length && 2 * index >= places.length)) chords.push([from, other]);
  }
  return chords;
}
