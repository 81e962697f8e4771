"""What was compiled before, on disk: by a hash of all that it depends on.

The text of a module says all of a program, a schedule and what Tilewright makes of them, so that its hash stands for
these in the name of its object file. A file is written under a name of its own and then renamed: whoever reads sees all
of it or none. It begins with a hash of what follows: a damaged one is seen, said, and made anew. Beyond LIMIT bytes the
files go that were not used for the longest time. The variable TILEWRIGHT_CACHE names another folder, or is `off`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .target import Processor

FOLDER = "TILEWRIGHT_CACHE"
LIMIT = 256 << 20
MARK = b"tilewright object 1\n"
# Of object files, and of what whole compilations came to.
SUFFIXES = (".o", ".kernel")


def folder() -> Path | None:
    """Where object files lie; None where none are kept."""
    given = os.environ.get(FOLDER)
    if given == "off":
        return None
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("tilewright") / "objects"


def key(source: str, processor: Processor, level: int) -> str:
    """A name for an object: whatever it depends on makes it another one."""
    import llvmlite
    import llvmlite.binding as llvm

    facts = (source, processor.name, processor.features, processor.triple, level)
    whole = repr((*facts, llvmlite.__version__, llvm.llvm_version_info))
    return hashlib.sha256(whole.encode()).hexdigest()


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """The object of that name from the cache, or a new one, which is then there."""
    found = read(f"{name}.o")
    if found is None:
        found = make()
        write(f"{name}.o", found)
    return found


def read(file: str) -> bytes | None:
    """What a file of the cache holds; None if it is not there, or damaged."""
    place = folder()
    if place is None:
        return None
    path = place / file
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    size = len(MARK) + 32
    content = data[size:]
    if data[:size] == MARK + hashlib.sha256(content).digest():
        return content
    warnings.warn(f"{path} is damaged; it is compiled again", stacklevel=4)
    return None


def write(file: str, content: bytes) -> None:
    """Put a file into the cache; where that cannot be done, what it holds is made again next time."""
    place = folder()
    if place is None:
        return
    path = place / file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(MARK + hashlib.sha256(content).digest() + content)
            os.replace(name, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError:
        return
    shrink(LIMIT)


def objects() -> Iterator[tuple[Path, os.stat_result]]:
    """The files of the cache; those that a killed process left half written too."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        for entry in sorted(place.iterdir()):
            if entry.suffix in SUFFIXES or entry.name.startswith(".new"):
                with contextlib.suppress(OSError):
                    yield entry, entry.stat()


def shrink(limit: int) -> int:
    """Delete what was not used for the longest time, until no more than so many bytes are left; how many files went."""
    found = sorted(objects(), key=lambda one: one[1].st_mtime)
    total = sum(stat.st_size for _, stat in found)
    gone = 0
    for path, stat in found:
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
        total -= stat.st_size
    return gone
