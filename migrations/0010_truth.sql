-- When a straggler stopped without finishing its work.
alter table assignments add column stopped_at_ms bigint;
-- Time that stragglers did not compute because they stopped before the deadline.
alter table rounds add column saved_ms bigint not null default 0;

-- How long the node's leases last without a renewal: it is dead when it has not been seen for so long.
alter table nodes add column lease_ms bigint not null default 10000;

-- Jobs that changed hands because their coordinator died.
create table takeovers (
    job text not null references jobs (id) on delete cascade,
    -- Of the new lease.
    token bigint not null,
    at_ms bigint not null,
    from_node text not null,
    to_node text not null,
    -- When the dead coordinator was last seen.
    seen_at_ms bigint not null,
    primary key (job, token)
);

-- Notifications that are sent to the webhook of the configuration.
create table notices (
    -- Repeated in the body, so that a receiver can recognise one that is sent twice.
    id text primary key,
    -- JSON.
    body text not null,
    created_at_ms bigint not null,
    attempts bigint not null default 0,
    -- When it is sent again; whoever moves this on sends it. Null when it was sent or given up.
    next_at_ms bigint,
    sent_at_ms bigint
);
create index notices_due on notices (next_at_ms) where next_at_ms is not null;
