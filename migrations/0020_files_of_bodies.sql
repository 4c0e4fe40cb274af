-- A body in files is one file, to which its parts are appended: several rows name one object.
create table ranges (
    -- As in blob_chunks.
    blob text primary key,
    -- Key in the store, below the deployment's id: one per attempt, so that none is ever overwritten.
    object text not null,
    -- The first byte of the body, or of its part, in the object.
    begins bigint not null,
    bytes bigint not null,
    -- CRC-32 of these bytes; null where they were stored before migration 0019.
    crc bigint,
    unique (object, begins)
);
insert into ranges (blob, object, begins, bytes, crc) select blob, object, 0, bytes, crc from objects;
drop table objects;
alter table ranges rename to objects;
