"""Which Tilewright this is: a hash of the files that a compilation runs through, as they were when it was loaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
ROOMS = ("frontend", "compiler", "passes", "backends")


def on_disk() -> str:
    """A hash of the names, lengths and times of those files now."""
    found: list[tuple[str, int, int]] = []
    folders = [str(PACKAGE / room) for room in ROOMS]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    found.append((entry.path, stat.st_size, stat.st_mtime_ns))
                elif entry.is_dir():
                    folders.append(entry.path)
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


# Before there is a kernel this is loaded. A file that changes afterwards is not, or not all of it, what runs here.
LOADED = on_disk()
