"""A member of a group: what it sends at each stage, and what it checks before."""

import secrets, struct

import numpy as np
from cryptography.exceptions import InvalidTag

from . import shamir
from .demands import require
from .roster import RECORD_BYTES, SUITE, Context, Record, Roster, agreed, commitment, public_key, u16
from .sealing import opened, sealed
from .words import body, mask

SEALED_BYTES = 81
OF_SURVIVORS, OF_LOST = 1, 2


class Reader:
    """Takes an answer apart from its beginning."""

    def __init__(self, data):
        self.data, self.place = data, 0

    def take(self, count):
        self.place += count
        require(self.place <= len(self.data), "an answer is cut off")
        return self.data[self.place - count : self.place]

    def u16(self):
        return struct.unpack("<H", self.take(2))[0]

    def end(self):
        require(self.place == len(self.data), "an answer is too long")


class Member:
    def __init__(self, draw=secrets.token_bytes):
        self.draw = draw
        self.of_masks, self.of_shares, self.own, nonce = (draw(32) for _ in range(4))
        keys = public_key(self.of_shares), public_key(self.of_masks)
        self.record = Record(SUITE, *keys, nonce, commitment(self.own), bytes(32))
        self.told_survivors, self.has_masked = None, False

    def formed(self, answer, expected):
        """Checks the group. Answers the body with the shares of the own secrets."""
        answer = Reader(answer)
        context = Context.from_bytes(answer.take(Context.FORM.size))
        self.roster = Roster(context, [answer.take(32) for _ in range(answer.u16())])
        self.index, self.expected = answer.u16(), expected
        neighbours = {}
        for _ in range(answer.u16()):
            neighbour = answer.u16()
            neighbours[neighbour] = Record.from_bytes(answer.take(RECORD_BYTES))
            answer.take(answer.u16())
        answer.end()
        hashes = self.roster.record_hashes
        expected.check(context, len(hashes))
        is_in = self.index < len(hashes) and hashes[self.index] == self.record.hash()
        require(is_in, "this member is not in the roster")
        require(list(neighbours) == self.roster.neighbours(self.index), "the neighbours are not those of the circle")
        require(all(hashes[one] == record.hash() for one, record in neighbours.items()), "a record is not the roster's")
        self.agree(neighbours)
        return self.sealed_shares()

    def agree(self, neighbours):
        """The secrets that are shared with each neighbour."""
        self.mask_secrets, self.share_secrets = {}, {}
        try:
            for one, record in neighbours.items():
                self.mask_secrets[one] = agreed(self.of_masks, record.key_of_masks)
                self.share_secrets[one] = agreed(self.of_shares, record.key_of_shares)
        except ValueError:
            raise Unsafe("a neighbour's key has a low order") from None

    def sealed_shares(self):
        threshold, neighbours = self.roster.context.threshold, list(self.mask_secrets)
        numbers = range(1, len(neighbours) + 1)
        of_each = [
            shamir.shares([secret] + [self.draw(32) for _ in range(threshold - 1)], numbers)
            for secret in (self.of_masks, self.own)
        ]
        body = self.roster.hash + bytes(64) + u16(len(neighbours))
        for number, neighbour, of_masks, of_own in zip(numbers, neighbours, *of_each):
            plain = bytes([number]) + of_masks + of_own
            body += u16(neighbour) + sealed(self.roster, self.share_secrets[neighbour], self.index, neighbour, plain)
        return body

    def inbox(self, answer):
        """Takes the shares of the neighbours that sent theirs."""
        answer, self.shares = Reader(answer), {}
        for _ in range(answer.u16()):
            sender = answer.u16()
            answer.take(64)
            ciphertext = answer.take(SEALED_BYTES)
            require(sender in self.mask_secrets, "shares of a member that is no neighbour")
            self.shares[sender] = self.opened(sender, ciphertext)
        answer.end()
        readable = sum(shares is not None for shares in self.shares.values())
        least = self.expected.inbox_min(self.roster.context, self.roster.members)
        require(readable >= least, f"{readable} neighbours sent shares, and {least} are demanded")

    def opened(self, sender, ciphertext):
        """The shares of a neighbour's two secrets; none where they are damaged. Masks are made with it all the same."""
        try:
            plain = opened(self.roster, self.share_secrets[sender], sender, self.index, ciphertext)
        except InvalidTag:
            return None
        return (plain[1:33], plain[33:]) if plain[0] == self.roster.share_number(sender, self.index) else None

    def masked(self, values, slots):
        """The body of the masked update. It is made once: two of them would tell their difference."""
        require(not self.has_masked, "this member has masked an update before")
        self.has_masked, bits = True, self.roster.context.bits
        values = self.with_masks(values.astype(np.uint64), "", bits)
        return body(self.roster.hash, values, self.with_masks(slots, "-slots", 64), bits)

    def with_masks(self, words, kind, bits):
        words = words + mask(self.roster.key(f"self{kind}", self.own, self.index), len(words), bits)
        for other in self.shares:
            key = self.roster.pair_key(f"mask{kind}", self.mask_secrets[other], self.index, other)
            pair = mask(key, len(words), bits)
            words = words + pair if other > self.index else words - pair
        return words

    def unmask(self, answer):
        """Checks who survived. Answers the body with the shares that open the sum."""
        require(self.told_survivors in (None, answer), "a second set of survivors")
        self.told_survivors = answer
        answer = Reader(answer)
        members = answer.u16()
        bitmap = answer.take(-(-members // 8))
        answer.end()
        survivors = {one for one in range(8 * len(bitmap)) if bitmap[one // 8] >> one % 8 & 1}
        require(members == self.roster.members and max(survivors, default=0) < members, "survivors of another group")
        require(self.index in survivors, "this member is not among the survivors")
        require(len(survivors) >= self.expected.survivors_min(members), "too few members survived")
        readable = {owner: shares for owner, shares in self.shares.items() if shares}
        body = u16(len(readable))
        for owner, (of_masks, of_own) in readable.items():
            kind, share = (OF_SURVIVORS, of_own) if owner in survivors else (OF_LOST, of_masks)
            body += u16(owner) + bytes([kind]) + share
        return body
