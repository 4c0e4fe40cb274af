// When a client was last here.

import type { Client } from "../api/types";
import { Ago } from "./parts";

/** Online while a coordinator holds a request of the client or the client is at work, else when it was last seen. */
export function Seen({ client }: { client: Client }) {
  if (!client.online) return <Ago at={client.last_seen_at_ms} />;
  return (
    <span class="online">
      <i aria-hidden="true" />
      {client.working ? "working" : "waiting"}
    </span>
  );
}
