"""Reads and writes Spillway's folder in the checkpoint: small files, each written atomically.

::

    checkpoint/spillway/
      lease            locked by the process that runs the query
      latest.json      the loop's latest decision, with the state from which it continues
      decisions/7.json the decision of batch 7, written before it was used, never changed
      joins/0.json     how a join or a pattern is divided into shards, for the life of the checkpoint
      learned/0.txt    the values of partial matches, as they were learned first
      history/0.jsonl  one line per finished batch

A reader never sees a part of such a file: a file gets its name when all of it is on disk. (Only the history is
appended to.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from pathlib import Path
from urllib.parse import unquote, urlparse

from spillway.errors import CheckpointInUseError, SpillwayError, invalid

KEPT_DECISIONS = 1000
RATIONS = "rations"  # keep probabilities from the groups of the batch itself (foreach_batch_groups.py)


def local_path(field: str, location: str | os.PathLike[str]) -> Path:
    """Return a checkpoint location as a path that driver and executors can open as files.

    >>> local_path("checkpoint", "file:///data/rides")
    PosixPath('/data/rides')
    """
    if not isinstance(location, str | os.PathLike):
        raise invalid(field, location, "the path of a folder")
    text = os.fspath(location)
    if not text.strip():
        raise invalid(field, text, "a folder")
    scheme = urlparse(text).scheme
    if len(scheme) > 1 and scheme != "file":
        raise SpillwayError(
            f"{field} = {text!r} is on {scheme}, which cannot be opened as files.",
            hint="mount it (NFS, FUSE) and give the mounted path as checkpoint and as checkpointLocation",
        )
    path = Path(unquote(urlparse(text).path)) if scheme == "file" else Path(text).absolute()
    if path.is_file():
        raise invalid(field, text, "the path of a folder", hint="this is a file")
    return path


class Folder:
    """Reads and writes whole files below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> str | None:
        """Return a file's text, or None where there is none."""
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; it replaces the file that was there."""
        temporary = self._temporary(name, text)
        try:
            os.replace(temporary, self.root / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def write_once(self, name: str, text: str) -> bool:
        """Create a file atomically, or return False where it is there already."""
        temporary = self._temporary(name, text)
        try:
            os.link(temporary, self.root / name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            return self._write_without_links(name, temporary)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def append(self, name: str, line: str) -> None:
        """Add a line to a file. A crash can cut off only the last line."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        (self.root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, without temporary ones."""
        try:
            return [name for name in os.listdir(self.root / folder) if not name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _temporary(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _write_without_links(self, name: str, temporary: Path) -> bool:
        """Create a file once where the file system has no hard links: claim its name, then rename the file to it."""
        try:
            os.close(os.open(self.root / f"{name}.claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            if (self.root / name).exists():
                return False
        os.replace(temporary, self.root / name)
        return True


class Lease:
    """A lock by which one process owns the folder. The operating system releases it when that process dies."""

    def __init__(self, folder: Folder) -> None:
        self._path = folder.root / "lease"
        self._file: int | None = None

    def take(self) -> None:
        """Lock the folder, or raise :class:`CheckpointInUseError` if another query holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 200).decode(errors="replace").strip() or "another process"
            os.close(file)
            raise CheckpointInUseError(
                f"checkpoint = {str(self._path.parent.parent)!r} is in use by {holder}.",
                hint="stop that query first, or give this one a checkpoint of its own",
            ) from None
        except OSError:
            os.close(file)
            raise
        self._file = file
        with contextlib.suppress(OSError):  # the name of the holder is only for the error message
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()}".encode())

    def give_back(self) -> None:
        """Unlock the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
