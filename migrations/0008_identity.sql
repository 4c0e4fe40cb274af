-- What clients authenticate with: secrets that are replaced without a gap, keys of devices, and the CAs that certify them.

-- Hex SHA-256 of the secret that replaces the other one when it is first used; null while there is none.
alter table clients add column next_secret_sha256 text;
-- When the secret in use was made.
alter table clients add column secret_at_ms bigint not null default 0;
update clients set secret_at_ms = created_at_ms;
-- Hex SHA-256 of the device's public key (SubjectPublicKeyInfo in DER); null until the client requests a certificate.
alter table clients add column key_sha256 text;
-- End of the newest certificate that it was given; null if it was given none.
alter table clients add column certificate_until_ms bigint;
create unique index clients_by_next_secret on clients (next_secret_sha256);
create index clients_by_key on clients (key_sha256);

-- The CA of each population, made when its first client requests a certificate.
create table population_cas (
    population text primary key references populations (name),
    -- X.509 in DER.
    certificate bytea not null,
    -- PKCS #8 in DER: whoever reads it can certify clients.
    private_key bytea not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null
);
