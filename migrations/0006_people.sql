-- Operators with roles, accounts with sessions, enrolment tokens with limits, and an audit log that is a hash chain.

alter table tokens add column kind text not null default 'enrolment' check (kind in ('operator', 'enrolment'));
-- What an operator token may do; null for enrolment tokens. A population restricts an operator token to it.
alter table tokens add column role text check (role in ('viewer', 'operator', 'admin'));
update tokens set kind = 'operator', role = 'admin' where population is null;
-- Kept to the minute: a write per request would cost more than the request.
alter table tokens add column last_used_at_ms bigint;
-- Clients enrolled with it, and their limits; null for no limit.
alter table tokens add column uses bigint not null default 0;
alter table tokens add column uses_max bigint;
alter table tokens add column per_minute_max bigint;
-- The minute that per_minute_max is about: when its first enrolment was, and how many there have been.
alter table tokens add column minute_at_ms bigint not null default 0;
alter table tokens add column minute_uses bigint not null default 0;
-- JSON object of strings: attributes of each client that it enrols.
alter table tokens add column attributes text not null default '{}';
update tokens set uses = (select count(*) from clients where clients.token = tokens.id);

-- JSON object of strings: those of the attributes that its enrolment token granted. The client cannot change them.
alter table clients add column granted text not null default '{}';

-- People who sign in with a password.
create table accounts (
    name text primary key,
    role text not null check (role in ('viewer', 'operator', 'admin')),
    -- The only population that it shows and changes; null for the whole deployment.
    population text references populations (name),
    -- Argon2id in the PHC string format, with parameters and salt.
    password text not null,
    password_at_ms bigint not null,
    created_at_ms bigint not null,
    revoked_at_ms bigint
);

-- Browsers in which a person is signed in.
create table sessions (
    -- Hex SHA-256 of the cookie: 32 random bytes need no slower hash.
    secret_sha256 text primary key,
    -- Null where an identity provider knows the person.
    account text references accounts (name),
    -- `account:` and the name, or `oidc:` and the provider's subject.
    actor text not null,
    name text not null,
    -- What the provider's groups allowed at the sign-in; null for accounts, whose own role and population count.
    role text check (role in ('viewer', 'operator', 'admin')),
    population text,
    -- From where it signed in; null where the coordinator does not know.
    address text,
    created_at_ms bigint not null,
    -- Kept to the minute.
    last_used_at_ms bigint not null,
    expires_at_ms bigint not null
);
create index sessions_of_actor on sessions (actor);

-- The entries so far had no chain. The next start of a coordinator appends them to it, oldest first.
drop index audit_by_time;
alter table audit rename to audit_unchained;

-- What was done, by whom. Rows are only ever added.
create table audit (
    -- 1, 2, ... without gaps.
    number bigint primary key,
    at_ms bigint not null,
    -- Who acted: a token's or client's id, `account:` and a name, `anonymous` or `coordinator`.
    actor text not null,
    -- The label of the token or the name of the account then.
    label text not null,
    -- What was done, as `job.pause`.
    action text not null,
    -- To what: an id or a name.
    subject text not null,
    -- Which population it concerned; null for the deployment.
    population text,
    -- More about it; null when there is no more to say.
    detail text,
    -- Hex SHA-256 of the entry before, and of this one with that in it.
    previous text not null,
    hash text not null
);
create index audit_of_population on audit (population, number);

-- One row: number and hash of the newest entry. Its lock orders the writers on PostgreSQL.
create table audit_head (
    one bigint primary key check (one = 1),
    number bigint not null,
    hash text not null
);
insert into audit_head (one, number, hash)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
