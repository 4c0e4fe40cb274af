// Which coordinators are silent. No event tells of it: the one that would tell has gone.

import type { Api } from "./http";
import type { Node, Page } from "./types";

/** How often the coordinators are looked at while there are several, in milliseconds. */
export const LOOK_MS = 2_000;
/** How often while there is one, which tells of itself by its answers. */
export const LOOK_MS_ALONE = 30_000;

/** Has everything asked again while a coordinator is silent, and once when one goes, comes or takes a job over. */
export class NodeWatch {
  private seen: string | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  constructor(
    private readonly api: Pick<Api, "json">,
    private readonly changed: () => void,
    private readonly hidden: () => boolean = () => document.hidden,
  ) {}

  async run(): Promise<void> {
    while (!this.stopped) {
      const pause = this.hidden() ? LOOK_MS : await this.look();
      if (pause === undefined) return;
      await new Promise<void>((resolve) => {
        this.timer = setTimeout(resolve, pause);
      });
    }
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  /** The time until the next look; undefined where this person may not see the coordinators. */
  async look(): Promise<number | undefined> {
    try {
      const { items } = await this.api.json<Page<Node>>("nodes");
      const now = JSON.stringify(items.map(({ id, state, leases }) => [id, state, leases.map(({ job }) => job)]));
      const isLate = items.some(({ state }) => state === "late");
      if (isLate || (this.seen !== undefined && this.seen !== now)) this.changed();
      this.seen = now;
      return items.length > 1 ? LOOK_MS : LOOK_MS_ALONE;
    } catch (error) {
      const { status } = error as { status?: number };
      return status === 403 || status === 404 ? undefined : LOOK_MS_ALONE;
    }
  }
}
