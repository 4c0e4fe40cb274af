"""The calls of one masked update: join a group, share secrets, send, open the sum."""

from .demands import Expected
from .member import Member
from .noise import Noise
from .values import Form, slots

OCTETS = {"Content-Type": "application/octet-stream"}


def exchange(coordinator, work, delta, figures, chunk_bytes):
    """Delivers a delta, whose values are in the model's order. Raises `Unsafe` where the group is none to trust."""
    masking, path = work["plan"]["masking"], f"/assignments/{work['id']}/group"
    form = Form(len(delta), masking["clip"], masking["levels"], masking["keep"])
    job, model = bytes.fromhex(work["job"].partition("_")[2]), bytes.fromhex(work["model_sha256"])
    expected = Expected(job, work["round"], model, work["plan_sha256"], form.coordinates, masking)
    member = Member()
    shares = member.formed(held(coordinator, "PUT", path, member.record.to_bytes()), expected)
    member.inbox(held(coordinator, "PUT", f"{path}/shares", shares))
    values, is_whole = form.quantised(delta, member.roster)
    told = slots(is_whole, figures["weight"], figures["loss"])
    if "noise" in masking:
        noise = Noise(masking, member.roster.members, form.coordinates)
        values, told = noise.added(values), noise.slots(is_whole)
    body = member.masked(values, told)
    coordinator.upload(f"{path}/update", {}, body, chunk_bytes)
    opening = member.unmask(held(coordinator, "GET", f"{path}/survivors"))
    coordinator.call("PUT", f"{path}/unmask", OCTETS, data=opening)


def held(coordinator, method, path, body=None):
    """The answer of a call, which is repeated until the group has gone on."""
    while True:
        answer = coordinator.call(method, path, OCTETS, held_s=60, data=body)
        if answer.status_code == 200:
            return answer.content
