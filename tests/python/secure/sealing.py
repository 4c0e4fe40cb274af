"""What one member sends to another through the coordinator, which cannot read it."""

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .roster import u16

# A key encrypts one message, so the nonce need not differ.
NONCE = bytes(12)


def sealed(roster, secret, sender, receiver, plain):
    return cipher(roster, secret, sender, receiver).encrypt(NONCE, plain, roster.hash + u16(sender, receiver))


def opened(roster, secret, sender, receiver, ciphertext):
    """Raises `InvalidTag` where the bytes are damaged, or meant for somebody else."""
    return cipher(roster, secret, sender, receiver).decrypt(NONCE, ciphertext, roster.hash + u16(sender, receiver))


def cipher(roster, secret, sender, receiver):
    return ChaCha20Poly1305(roster.key("share", secret, sender, receiver))
