"""The state of a pattern as bytes; see ``spillway.core.state.blob``."""

from __future__ import annotations

from spillway.core.state.blob import BlobFormat

_FORMAT = BlobFormat(b"SPCEPS", version=2, owner="a pattern")
to_bytes, from_bytes = _FORMAT.write, _FORMAT.read
