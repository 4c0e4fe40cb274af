-- CRC-32 of the bytes of a chunk or an object, as they were written; null where they were stored before this migration.
-- Reading compares it, which costs a tenth of a SHA-256.
alter table blob_chunks add column crc bigint;
alter table objects add column crc bigint;
