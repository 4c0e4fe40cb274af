"""Who is in a group, who are neighbours in it, and the keys that follow from both."""

import hashlib, struct
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

LABEL = b"tributary-secagg-1 "
SUITE = 1
RECORD_BYTES = 161


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u16(*numbers):
    return struct.pack(f"<{len(numbers)}H", *numbers)


class Context(NamedTuple):
    """What a group is for, and its sizes."""

    job: bytes
    round: int
    group: bytes
    model: bytes
    plan: bytes
    suite: int
    bits: int
    threshold: int
    degree: int
    length: int

    FORM = struct.Struct("<16sQ16s32s32sBBHHI")

    def to_bytes(self):
        return Context.FORM.pack(*self)

    @classmethod
    def from_bytes(cls, data):
        return cls(*cls.FORM.unpack(data))


class Record(NamedTuple):
    """What a member shows of its secrets."""

    suite: int
    key_of_shares: bytes
    key_of_masks: bytes
    nonce: bytes
    commitment: bytes
    certificate: bytes

    FORM = struct.Struct("<B32s32s32s32s32s")

    def to_bytes(self):
        return Record.FORM.pack(*self)

    @classmethod
    def from_bytes(cls, data):
        return cls(*cls.FORM.unpack(data))

    def hash(self):
        return sha256(LABEL, b"record\n", self.to_bytes())


def commitment(own_secret):
    return sha256(LABEL, b"commit\n", own_secret)


def public_key(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def agreed(secret, public):
    """The secret that two X25519 keys agree on. A ValueError says that the public one has a low order."""
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))


def keystream(key, size):
    """The first bytes of ChaCha20 with nonce and counter 0."""
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


class Roster:
    def __init__(self, context, record_hashes):
        self.context, self.record_hashes = context, record_hashes
        self.members = len(record_hashes)
        self.hash = sha256(LABEL, b"roster\n", context.to_bytes(), u16(self.members), *record_hashes)
        self.circle = self.in_circle()

    def in_circle(self):
        return sorted(range(self.members), key=lambda member: sha256(LABEL, b"graph\n", self.hash, u16(member)))

    def neighbours(self, member):
        """By index."""
        if self.context.degree >= self.members - 1:
            return [other for other in range(self.members) if other != member]
        place, reach = self.circle.index(member), self.context.degree // 2
        steps = [step for step in range(-reach, reach + 1) if step]
        return sorted(self.circle[(place + step) % self.members] for step in steps)

    def share_number(self, owner, holder):
        return self.neighbours(owner).index(holder) + 1

    def key(self, purpose, secret=b"", *members):
        """A key that only those derive who know the secret, bound to this roster."""
        info = LABEL + purpose.encode() + u16(*members)
        return HKDF(SHA256(), 32, salt=self.hash, info=info).derive(secret)

    def pair_key(self, purpose, secret, *members):
        """The same key on both sides."""
        return self.key(purpose, secret, *sorted(members))
