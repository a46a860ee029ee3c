"""The state of a pattern as bytes; see ``spillway.core.blob``."""

from __future__ import annotations

from spillway.core.blob import BlobFormat

_FORMAT = BlobFormat(b"SPCEPS", version=2, owner="a pattern")
to_bytes, from_bytes = _FORMAT.write, _FORMAT.read
