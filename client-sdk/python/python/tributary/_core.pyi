from typing import Optional, TypedDict

class TributaryError(Exception):
    """A session failed. Finished work is kept and sent by a later session."""

    retry_after_s: Optional[float]
    kind: Optional[str]

class Unreachable(TributaryError): ...
class Refused(TributaryError): ...
class Interrupted(TributaryError): ...
class Suspended(Interrupted): ...
class DoesNotFit(TributaryError): ...
class Diverged(TributaryError): ...
class NoExamples(TributaryError): ...

class Stop:
    def is_set(self) -> bool: ...
    def is_over(self) -> bool: ...

class LayerExamples:
    def __new__(
        cls,
        shape: list[int],
        inputs: bytes,
        classes: Optional[bytes],
        values: Optional[bytes],
        width: int,
        threads: int,
    ) -> LayerExamples: ...

class Settings(TypedDict):
    server: str
    token: str
    state_dir: str
    attributes: dict[str, str]
    wait_s: float
    ca_pem: Optional[bytes]
    allow_plaintext: bool

class Session:
    def __new__(cls, settings: Settings) -> Session: ...
    def enrol(self) -> str: ...
    def open_jobs(self) -> str: ...
    def run_once(
        self, trainer: object, host: Optional[object]
    ) -> tuple[str, Optional[int], float, Optional[str]]: ...
