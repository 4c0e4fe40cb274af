"""What a client demands of the group that it gives its update to."""

import math

from .roster import SUITE

MEMBERS_MIN = 3
NEIGHBOURS_MIN = 10


class Unsafe(Exception):
    """This group is not one to which a client gives its update."""


def require(holds, otherwise):
    if not holds:
        raise Unsafe(otherwise)


class Expected:
    """What a client knows of the group that its work belongs to, and demands of it."""

    def __init__(self, job, round, model, plan, length, masking):
        self.job, self.round, self.model, self.plan, self.length = job, round, model, plan, length
        self.members_min, self.dropouts = masking["group_min"], masking["dropouts"]

    def check(self, context, members):
        ours = (self.job, self.round, self.model, self.plan, SUITE, self.length)
        theirs = (context.job, context.round, context.model, context.plan, context.suite, context.length)
        require(ours == theirs, "the group is for another model, plan or round")
        require(members >= max(self.members_min, MEMBERS_MIN), f"a group of {members} members is too small")
        require(context.degree >= min(NEIGHBOURS_MIN, members - 1), "there are too few neighbours")
        # With fewer, some neighbours together with the coordinator could read an update.
        require(context.degree / 3 < context.threshold <= context.degree, "too few shares rebuild a secret")

    def survivors_min(self, members):
        # The product of decimal numbers may be a little below a whole one.
        return max(members - math.floor(self.dropouts * members + 1e-9), 2)

    def inbox_min(self, context, members):
        return self.survivors_min(members) - 1 if context.degree == members - 1 else context.threshold
