-- Stale-synchronous jobs: members with clocks. A client is a member from its draw until its work ends without a report,
-- or until it stays away too long.
create table members (
    job text not null references jobs (id) on delete cascade,
    client text not null references clients (id),
    -- Updates that it has contributed, counted from the clock at which it came.
    clock bigint not null check (clock >= 0),
    -- Since when a driver misses it: it could begin its next work, and does not wait for it.
    missed_at_ms bigint,
    primary key (job, client)
);
