"""The state of a join as bytes; see ``spillway.core.state.blob``."""

from __future__ import annotations

from spillway.core.state.blob import BlobFormat

MAGIC = b"SPJOIN"
_FORMAT = BlobFormat(MAGIC, version=1, owner="a join")
to_bytes, from_bytes = _FORMAT.write, _FORMAT.read
