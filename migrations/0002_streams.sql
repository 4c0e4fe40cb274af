-- Bodies that are written part by part, and bytes as they would have been without compression.

-- A body that is too large to be held in memory is written while it arrives, or while it is made, under a name of its own.
-- The transaction that makes it count only stores which body it is: nothing is copied. A row is one of three things: not
-- finished (blob null, expires_at_ms above 0), a body (blob set, expires_at_ms null), or of no more use, to be deleted
-- with its parts (blob null, expires_at_ms 0).
create table staged_bodies (
    -- `staged/<random>`. Its parts are in blob_chunks under this name; in an object store they are in objects as
    -- `<id>/<part>`.
    id text primary key,
    -- The body that it is, named as in blob_chunks.
    blob text unique,
    -- Whose unfinished update it is, as long as it can be resumed; null for models.
    assignment text unique,
    in_store boolean not null,
    -- Length of every part but the last, which may be shorter.
    part_bytes bigint not null,
    -- How much of it is stored.
    bytes bigint not null,
    -- Hash of the whole body, where its sender announced it (hex SHA-256).
    sha256 text,
    -- Rises by one whenever somebody else goes on with it: who was at it before can add nothing more.
    attempt bigint not null default 1,
    expires_at_ms bigint
);
create index staged_bodies_unfinished on staged_bodies (expires_at_ms) where blob is null;

-- What the bodies of bytes_up and bytes_down would have taken as plain f32 safetensors files. Until now they were that.
alter table assignments add column raw_bytes_up bigint not null default 0;
alter table assignments add column raw_bytes_down bigint not null default 0;
alter table rounds add column raw_bytes_up bigint not null default 0;
alter table rounds add column raw_bytes_down bigint not null default 0;
update assignments set raw_bytes_up = bytes_up, raw_bytes_down = bytes_down;
update rounds set raw_bytes_up = bytes_up, raw_bytes_down = bytes_down;
