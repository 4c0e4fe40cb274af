"""The operator's side: jobs, rounds, figures and models."""

from __future__ import annotations

import json
import logging
import os
import random
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPException
from os import PathLike
from typing import Any, Optional, Union
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from ._core import Refused, Unreachable, Untrusted
from .arrays import Arrays, from_safetensors, with_card
from .authorities import Authorities, pem
from .job import Job

log = logging.getLogger("tributary")

WAIT_S = 30
"""How long the coordinator may hold a request for the next event."""
ANSWER_S = 60
"""How long a request may take beside the sending of its body .."""
UPLOAD_BYTES_PER_S = 64 * 1024
""".. which is sent at least at this rate."""
PAUSE_S = 1.0
"""Pause before a request of `watch` is repeated, doubled after each further failure .."""
PAUSE_MAX_S = 60.0
""".. up to this."""


class Operator:
    """An operator of a coordinator. `token` is an operator's token, `ca` has the CAs to trust instead of the
    system's: a path, or PEM as bytes. Methods that take a job accept its id, or its name if no other population has the same.

    Raises `Refused` with the coordinator's reason, `Untrusted` or `Unreachable`.
    """

    def __init__(self, server: str, token: str, *, ca: Authorities = None) -> None:
        self._base, self._token = server.rstrip("/") + "/operator/v1", token
        handlers: list[Any] = [HTTPSHandler(context=ssl.create_default_context(cadata=pem(ca)))]
        if urlsplit(server).hostname in ("127.0.0.1", "::1", "localhost"):
            handlers.append(ProxyHandler({}))
        self._open = build_opener(*handlers).open

    def create(self, job: Union[Job, Mapping[str, Any]]) -> dict[str, Any]:
        """Creates a job and uploads its initial model. Returns the job."""
        job = job if isinstance(job, Job) else Job(dict(job))
        created = self._json("POST", "/jobs", {"job": job.file})
        if job.initial is not None:
            self._call("PUT", f"/jobs/{created['id']}/models/0", job.initial, "application/octet-stream")
            created = self.job(created["id"])
        return created

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, the newest first."""
        return list(self._pages("/jobs"))

    def job(self, job: str) -> dict[str, Any]:
        return self._json("GET", f"/jobs/{self._id(job)}")

    def pause(self, job: str) -> None:
        self._call("POST", f"/jobs/{self._id(job)}/pause")

    def resume(self, job: str) -> None:
        self._call("POST", f"/jobs/{self._id(job)}/resume")

    def stop(self, job: str) -> None:
        self._call("POST", f"/jobs/{self._id(job)}/stop")

    def policy(self, job: str, **changes: Any) -> None:
        """Changes settings of `[round]`, such as `deadline_ms` or `updates_goal`, from the next round on."""
        self._json("PATCH", f"/jobs/{self._id(job)}/round-policy", changes)

    def delete(self, job: str) -> None:
        """Deletes a job that has ended, with its rounds and versions."""
        self._call("DELETE", f"/jobs/{self._id(job)}")

    def pin(self, job: str, version: int, pinned: bool = True) -> None:
        """Keeps a version whatever the job's retention says, or no more."""
        self._call("PUT" if pinned else "DELETE", f"/jobs/{self._id(job)}/models/{version}/pin")

    def upload_test_set(self, job: str, file: bytes) -> None:
        """The examples that the coordinator evaluates on: a safetensors file with `inputs` and `labels`."""
        self._call("PUT", f"/jobs/{self._id(job)}/test-set", file, "application/octet-stream")

    def populations(self) -> list[dict[str, Any]]:
        return list(self._pages("/populations"))

    def create_population(self, name: str) -> None:
        self._call("POST", "/populations", json.dumps({"name": name}).encode())

    def enrolment_token(self, population: str, **settings: Any) -> str:
        """A new token with which apps enrol clients; no later call returns it. Settings are `label`, `valid_for_ms`,
        `uses_max`, `per_minute_max` and `attributes`."""
        asked = {"kind": "enrolment", "population": population, **settings}
        secret: str = self._json("POST", "/tokens", asked)["secret"]
        return secret

    def clients(self, population: Optional[str] = None) -> list[dict[str, Any]]:
        """All clients, or those of a population."""
        return list(self._pages("/clients", {} if population is None else {"population": population}))

    def set_standing(self, client: str, standing: str, reason: str = "") -> None:
        """Makes a client `active`, `quarantined` or `revoked`."""
        self._json("PUT", f"/clients/{quote(client)}/standing", {"standing": standing, "reason": reason})

    def rounds(self, job: str, task: str = "train") -> list[dict[str, Any]]:
        """All rounds with this task (`train` or `evaluate`), the oldest first."""
        query = urlencode({"format": "json", "task": task})
        rounds = self._json("GET", f"/jobs/{self._id(job)}/metrics?{query}")
        return sorted(rounds, key=lambda one: one["number"])

    def metrics(self, job: str, task: str = "train") -> Any:
        """The figures of all rounds as a pandas `DataFrame`, with the number of the round as index."""
        import pandas

        return pandas.json_normalize(self.rounds(job, task)).set_index("number")

    def watch(self, job: str) -> Iterator[dict[str, Any]]:
        """Each training round when it has ended, from the first one on, until the job ends: its figures, and one sentence
        as `explanation`. While the coordinator does not answer, it waits and asks again."""
        job, after = self._id(job), 0
        while True:
            is_over = self._patiently(f"/jobs/{job}")["state"] in ("completed", "stopped")
            wait_ms = 0 if is_over else WAIT_S * 1000
            query = urlencode({"job": job, "after": after, "wait_ms": wait_ms})
            events = self._patiently(f"/events?{query}")["items"]
            for event in events:
                after = event["sequence"]
                has_ended = event["became"] in ("committed", "abandoned") and "assignment" not in event
                if has_ended and event.get("task") == "train":
                    detail = self._patiently(f"/jobs/{job}/rounds/{event['round']}")
                    yield {**detail["round"], "explanation": detail["explanation"]}
            if is_over and not events:
                return

    def model(self, job: str, version: Optional[int] = None) -> Arrays:
        """A model version as arrays by name; the newest by default."""
        job = self._id(job)
        if version is None:
            version = self._version(job, None)["version"]
        return from_safetensors(self._call("GET", f"/jobs/{job}/models/{version}"))

    def export(self, job: str, version: Optional[int], path: Union[str, PathLike[str]], *, form: str = "f32") -> None:
        """Writes a model version as a safetensors file, as `tributary job export` does; None is the newest.

        A file of the form `"f32"` says what the model is and what it is fed: `tributary.load(path)` predicts with it.
        `"f16"` is rounded and half as large. The file is written whole or not at all. Raises `ValueError` for a form
        or a version that there is not.
        """
        if form not in ("f32", "f16"):
            raise ValueError(f"{form!r} is not f32 or f16; ONNX files are written by `tributary job export --form onnx`")
        found = self.job(job)
        about = self._version(found["id"], version)
        address = f"/jobs/{found['id']}/models/{about['version']}"
        if form == "f16":
            file = self._call("GET", f"{address}?form=f16")
        else:
            plain = self._call("GET", address)
            if sha256(plain).hexdigest() != about["sha256"]:
                raise Unreachable(f"what {self._base} sent is not version {about['version']}: its SHA-256 is another")
            file = with_card(plain, _card(found, about))
        part = f"{os.fspath(path)}.part"
        try:
            with open(part, "wb") as written:
                written.write(file)
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.remove(part)
            raise

    def _version(self, job: str, wanted: Optional[int]) -> dict[str, Any]:
        """A version that is not deleted; the newest for None."""
        versions = [one for one in self._pages(f"/jobs/{job}/models") if "deleted_at_ms" not in one]
        found = versions if wanted is None else [one for one in versions if one["version"] == wanted]
        if not found:
            raise ValueError("there is no version yet" if wanted is None else f"there is no version {wanted}")
        return max(found, key=lambda one: one["version"])

    def _id(self, job: str) -> str:
        if job.startswith("job_"):
            return job
        found = [one["id"] for one in self.jobs() if one["file"]["name"] == job]
        if len(found) != 1:
            raise ValueError(f"{len(found)} jobs are called {job!r}")
        return found[0]

    def _pages(self, path: str, query: Optional[Mapping[str, str]] = None) -> Iterator[dict[str, Any]]:
        after: Optional[str] = None
        while True:
            asked = urlencode({**(query or {}), **({} if after is None else {"after": after})})
            page = self._json("GET", f"{path}?{asked}" if asked else path)
            yield from page["items"]
            after = page.get("next")
            if after is None:
                return

    def _patiently(self, path: str) -> Any:
        """What the path has, once the coordinator answers."""
        pause = PAUSE_S
        while True:
            try:
                return self._json("GET", path)
            except Unreachable as error:
                log.warning("asking again: %s", error)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(PAUSE_MAX_S, 2 * pause)

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        answer = self._call(method, path, sent)
        return json.loads(answer) if answer else None

    def _call(self, method: str, path: str, body: Optional[bytes] = None, kind: str = "application/json") -> bytes:
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = kind
        request = Request(self._base + path, data=body, headers=headers, method=method)
        try:
            # The time-out is that of sending the whole body, not of each piece.
            with self._open(request, timeout=ANSWER_S + len(body or b"") / UPLOAD_BYTES_PER_S) as answer:
                return answer.read()
        except HTTPError as error:
            raise _refused(error) from None
        except (OSError, HTTPException) as error:
            # A coordinator that restarts closes connections, in the middle of an answer too.
            reason = error.reason if isinstance(error, URLError) else error or type(error).__name__
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Untrusted(f"the certificate of {self._base} is not trusted: {reason.verify_message}") from None
            raise Unreachable(f"{self._base} does not answer: {reason}") from None


def _card(job: Mapping[str, Any], version: Mapping[str, Any]) -> dict[str, Any]:
    """What the file of a version says of itself."""
    return {
        "job": job["file"]["name"],
        "version": version["version"],
        "sha256": version["sha256"],
        "plan_sha256": job["plan_hash"],
        "loss": job["file"]["training"]["loss"],
        "model": job["file"]["model"],
    }


def _refused(error: HTTPError) -> Exception:
    try:
        problem = json.loads(error.read())
        # With 500 and more, the coordinator cannot answer now.
        kind = Refused if error.code < 500 else Unreachable
        refused = kind(f"{problem['title']}: {problem['detail']}")
        refused.kind = problem["type"].rsplit(":", 1)[1]
        refused.retry_after_s = problem["retry_after_ms"] / 1000 if "retry_after_ms" in problem else None
    except (ValueError, KeyError, OSError, HTTPException):
        return Unreachable(f"not the answer of a coordinator: HTTP {error.code}")
    return refused
