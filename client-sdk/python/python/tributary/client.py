"""A client, and its sessions."""

from __future__ import annotations

import json
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fsdecode
from typing import Any, Literal, Optional, Union

from . import _core
from .authorities import Authorities, pem
from .model import Model
from .trainer import Bridge, LayerTrainer, Trainer

log = logging.getLogger("tributary")

Trainers = Union[Trainer, LayerTrainer, Mapping[Optional[str], Union[Trainer, LayerTrainer]]]
"""A trainer, or those of several example sets by the names that jobs give in `data`; `None` is the one of jobs that give
no name."""

PAUSE_S = 1.0
"""Pause after a failed session, doubled after each further one .."""
PAUSE_MAX_S = 600.0
""".. up to this."""
FINAL = frozenset({"unauthorized", "client-revoked"})
"""Refusals that no later session changes."""
STEPS_EVERY_S = 10.0
"""Pause between two lines about the steps of a training."""
WAIT_MAX_S = 60.0
"""Longest time that the coordinator may hold a check-in."""


@dataclass(frozen=True)
class Outcome:
    """How a session ended without an error."""

    kind: Literal["contributed", "evaluated", "described", "nothing_to_do", "too_late", "interrupted"]
    """`contributed`, `evaluated`, `nothing_to_do`, `too_late` or `interrupted`."""
    round: Optional[int]
    """Number of the round in its job, from 1."""
    retry_after_s: float
    """Wait this long before the next session."""
    waits_for: Optional[Mapping[str, Any]]
    """What the client waits for while there is nothing to do, if the coordinator said so."""

    def _as_text(self) -> str:
        if self.round is not None:
            return f"{self.kind.replace('_', ' ')}: round {self.round}"
        if self.waits_for is None:
            return self.kind.replace("_", " ")
        # Times change from session to session.
        facts = {name: value for name, value in self.waits_for.items() if not name.endswith("_ms")}
        return f"waits: {json.dumps(facts)}"


@dataclass(frozen=True)
class Progress:
    """What a session does."""

    kind: Literal["downloading", "training", "step", "evaluating", "describing", "uploading", "retrying"]
    """`step` comes at most every ten seconds of a training, the others when they begin."""
    number: Optional[float]
    """Bytes, where they are known, of a download or an upload; the round of a training or an evaluation; steps that are
    done; seconds until a request is repeated."""
    of: Optional[int] = None
    """Steps in all, where they are known."""
    reason: str = ""
    """Why a request is repeated."""

    def _as_text(self) -> str:
        if self.kind == "retrying":
            return f"a request is repeated in {self.number or 0:.1f} s: {self.reason}"
        if self.kind == "step":
            return f"step {self.number:.0f}" + ("" if self.of is None else f" of {self.of}")
        if self.kind in ("training", "evaluating", "describing"):
            return f"{self.kind} for round {self.number:.0f}"
        return self.kind if self.number is None else f"{self.kind} {_size(self.number)}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


class _Watcher:
    """Logs what sessions do, and tells the app."""

    def __init__(self) -> None:
        self.on_progress: Optional[Callable[[Progress], None]] = None
        self._next_s = 0.0

    def hear(self, kind: Any, number: Optional[float], reason: str = "", of: Optional[int] = None) -> None:
        if kind == "training":
            self._next_s = time.monotonic() + STEPS_EVERY_S
        elif kind == "step":
            if time.monotonic() < self._next_s:
                return
            self._next_s = time.monotonic() + STEPS_EVERY_S
        progress = Progress(kind, number, of, reason)
        log.info("%s", progress._as_text())
        if self.on_progress is not None:
            try:
                self.on_progress(progress)
            except Exception:
                # Who watches has no say in the training.
                log.exception("on_progress failed")

    def steps(self, done: int, of: Optional[int]) -> None:
        self.hear("step", done, of=of)


class Host:
    """What the app says about the device. Override the methods to train only when that disturbs nobody."""

    def may_continue(self) -> bool:
        """Whether the session may go on. It is asked many times a second, so it must return at once."""
        return True

    def state(self) -> Mapping[str, Any]:
        """Any of `battery_percent` (0 to 100), `charging` and `metered`, which a check-in reports."""
        return {}


class _HostBridge:
    def __init__(self, host: Host) -> None:
        self._host = host

    def may_continue(self) -> bool:
        return self._host.may_continue()

    def device_state(self) -> str:
        return json.dumps({"examples": 0, **self._host.state()})


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Lets SIGTERM, with which Docker, systemd, Kubernetes and Slurm stop a process, end a session as Ctrl-C does. Only a
    main thread may say so, and what the app does with the signal stays."""
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if threading.current_thread() is not threading.main_thread() or not is_default:
        yield
        return

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Client:
    """One client of a coordinator.

    `token` is an enrolment token. `state_dir` keeps identity, model cache and undelivered work; two processes must not
    share it. `attributes` describe the device: jobs choose clients by them. `wait_s` is how long the coordinator may hold
    a check-in while it has no work, at most 60. `checkpoint_every_s` is how often a training that goes on is stored, so
    that after a kill the next session goes on from there; 0 for never. `channels` are those whose releases sessions and
    `update_releases` get. `consent` is the consent with which the client takes part: a name of the text that was agreed
    to, and when, in milliseconds since 1970. `privacy_floor` is what the client demands of every job, whatever an
    operator configures: `{"secure_aggregation": True}` takes part only where updates are masked, `"survivors_min"` is the
    fewest members whose updates are in a sum, `"signed": True` asks for groups whose members sign, `"epsilon_max"` is the
    largest epsilon that this client spends in a job against the coordinator (it counts its own updates, to which the
    members of its groups add noise), and `"clip_max"` is the largest norm to which updates are clipped. `ca` are the CAs
    to trust instead of the system's: a path, or PEM as bytes. `allow_plaintext` allows `http://` to other machines. `report_errors` is what the operator
    learns of an exception of the trainer: its `"type"`, or with `"text"` also its text, which may quote examples or paths.
    `attest` obtains what the platform says about the machine, where the operator asks for it at enrolment: it takes the
    SHA-256 of the machine's public key, or `None` without one, and returns the kind of the statement and its text.
    `table` answers analyses: it takes names of columns and returns the values of all rows in them, numbers, texts or
    `None`. Rows never leave the machine. A client that only answers runs without a trainer: `run({})`.
    """

    def __init__(
        self,
        server: str,
        token: str,
        *,
        state_dir: Union[str, PathLike[str]] = "tributary",
        attributes: Optional[Mapping[str, str]] = None,
        wait_s: float = 30.0,
        checkpoint_every_s: int = 300,
        channels: Sequence[str] = (),
        consent: Optional[tuple[str, int]] = None,
        privacy_floor: Optional[Mapping[str, Any]] = None,
        ca: Authorities = None,
        allow_plaintext: bool = False,
        report_errors: Literal["type", "text"] = "type",
        attest: Optional[Callable[[Optional[bytes]], tuple[str, str]]] = None,
        table: Optional[Callable[[list[str]], Iterable[Iterable[Union[None, float, str]]]]] = None,
    ) -> None:
        if report_errors not in ("type", "text"):
            raise ValueError(f'report_errors is "type" or "text", not {report_errors!r}')
        self._reports_text = report_errors == "text"
        attributes = {"platform": "python", **(attributes or {})}
        for name, value in attributes.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"attributes are texts by name, not {name!r}: {value!r}")
        if not 0 <= wait_s <= WAIT_MAX_S:
            raise ValueError(f"wait_s is from 0 to {WAIT_MAX_S:.0f} seconds, not {wait_s!r}")
        if not isinstance(checkpoint_every_s, int) or checkpoint_every_s < 0:
            raise ValueError(f"checkpoint_every_s is a number of whole seconds, not {checkpoint_every_s!r}")
        settings = {
            "server": server,
            "token": token,
            "state_dir": fsdecode(state_dir),
            "attributes": attributes,
            "wait_ms": int(wait_s * 1000),
            "checkpoint_every_s": checkpoint_every_s,
            "channels": list(channels),
            "consent": None if consent is None else {"text": consent[0], "given_at_ms": consent[1]},
            "privacy_floor": dict(privacy_floor or {}),
            "ca_pem": pem(ca),
            "allow_plaintext": allow_plaintext,
        }
        self._watcher = _Watcher()
        self._session = _core.Session(json.dumps(settings), self._watcher.hear, attest, table, self._reports_text)

    def enrol(self) -> str:
        """The client's id. A session enrols by itself; call this to learn early that a token does not work."""
        return self._session.enrol()

    def leave(self) -> bool:
        """Deletes the client's folder, and has the coordinator delete what it has stored of the client. Stop its
        sessions first. Whether the coordinator knows; otherwise call it again, or the next session tells it."""
        return self._session.leave()

    def open_jobs(self) -> list[dict[str, Any]]:
        """What the running jobs require of examples: `name`, `loss`, and of networks as layers `input` and `output`."""
        return json.loads(self._session.open_jobs())

    def model(self, job: str) -> Optional[Model]:
        """The model of a job that the client downloaded last, with its own personal parameters.

        It comes from `state_dir`, without a network; `None` until the client has taken part in a round of the job. Raises
        `TributaryError` if the network is part of the app.
        """
        native = self._session.model(job)
        return None if native is None else Model(native)

    def released(
        self,
        channel: str,
        freshness: Literal["latest", "local", "local_then_update"] = "latest",
        host: Optional[Host] = None,
    ) -> Optional[Model]:
        """The model that was released on a channel, such as `"stable"`, whether or not this client trains.

        `"latest"` downloads a newer release first, `"local"` asks nobody, and `"local_then_update"` is what is here, at
        once, and lets the next session or update get a newer one. `None` until a release is here. What is here stays
        until a newer release is whole and can be used. Raises `TributaryError` if nothing is here and the coordinator
        does not answer.
        """
        bridge = None if host is None else _HostBridge(host)
        native = self._session.released(channel, freshness, bridge)
        return None if native is None else Model(native)

    def update_releases(self, host: Optional[Host] = None) -> float:
        """Gets the newest releases of `channels`, for a device that never trains. Seconds until the next call is due; an
        earlier one asks nothing. Sessions do the same."""
        return self._session.update_releases(None if host is None else _HostBridge(host))

    def run_once(self, trainer: Trainers, host: Optional[Host] = None) -> Outcome:
        """One session: delivers finished work of an earlier one, or checks in and does the work of one round.

        An app with several models passes a trainer for each example set: `{"typing": .., "photos": ..}`. The work of a
        job goes to the trainer of the set that the job names. The trainer runs on a thread of its own. Raises
        `TributaryError`; finished work is kept and sent later. An
        exception of the trainer is reported to the coordinator, as `report_errors` says, and raised again.
        """
        trainers = dict(trainer) if isinstance(trainer, Mapping) else {None: trainer}
        natives = [(name, self._native(each)) for name, each in trainers.items()]
        bridge = _HostBridge(host) if host is not None else None
        ended = self._session.run_once(natives, bridge, self._reports_text)
        kind, number, retry_after_s, waits_for = ended
        return Outcome(kind, number, retry_after_s, json.loads(waits_for) if waits_for else None)

    def _native(self, trainer: Union[Trainer, LayerTrainer]) -> object:
        return trainer._native if isinstance(trainer, LayerTrainer) else Bridge(trainer, self._watcher.steps)

    def run(
        self,
        trainer: Trainers,
        host: Optional[Host] = None,
        *,
        stop: Optional[threading.Event] = None,
        on_outcome: Optional[Callable[[Outcome], None]] = None,
        on_progress: Optional[Callable[[Progress], None]] = None,
    ) -> None:
        """Sessions until `stop` is set, Ctrl-C or SIGTERM, which raises `SystemExit`: both keep where a training was. Between
        two sessions it waits as long as the coordinator asks; failures are logged, and the pause after them grows. What a
        session does, and what it waits for, is logged at INFO on the logger `tributary`. `on_progress` is called with the
        same; it must return at once.

        Raises `Refused` if the coordinator accepts the token or this client no more.
        """
        self._watcher.on_progress = on_progress
        with _sigterm_raises():
            self._sessions(trainer, host, stop or threading.Event(), on_outcome)

    def _sessions(
        self,
        trainer: Trainers,
        host: Optional[Host],
        stop: threading.Event,
        on_outcome: Optional[Callable[[Outcome], None]],
    ) -> None:
        failures, said = 0, None
        while not stop.is_set():
            try:
                outcome = self.run_once(trainer, host)
            except Exception as error:
                if isinstance(error, _core.Refused) and error.kind in FINAL:
                    raise
                # Where the failing line is, is said for exceptions of the trainer, not for those of the network.
                log.warning("a session failed: %s", error, exc_info=not isinstance(error, _core.TributaryError))
                # Clients that failed together come back one by one.
                pause = min(PAUSE_MAX_S, PAUSE_S * 2**min(failures, 20)) * random.uniform(0.5, 1.0)
                pause = max(pause, getattr(error, "retry_after_s", None) or 0.0)
                failures += 1
            else:
                failures, pause = 0, outcome.retry_after_s
                # A client that waits says so once, and not every half minute.
                says = outcome._as_text()
                log.log(logging.DEBUG if says == said else logging.INFO, "%s", says)
                said = says
                if on_outcome is not None:
                    on_outcome(outcome)
            stop.wait(pause)
