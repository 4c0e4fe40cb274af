"""The CAs that a client or an operator trusts."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Optional, Union

Authorities = Union[str, PathLike[str], bytes, None]
"""A path to a PEM file, or PEM as bytes; `None` are those that the system trusts."""


def pem(ca: Authorities) -> Optional[str]:
    """Their PEM text."""
    if ca is None:
        return None
    return (ca if isinstance(ca, bytes) else Path(ca).read_bytes()).decode("utf-8", "replace")
