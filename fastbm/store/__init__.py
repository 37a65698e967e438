"""Streams of arrays on disk: immutable HDF5 segments while a run lives, one HDF5 file when it is done.

A run killed at any instant resumes and ends with every dataset byte-identical to the uninterrupted run's.
"""

from .._base.streams import Stream
from .creation import create
from .holder import Holder
from .memory import Memory
from .merge.merge import discard, merge_parts
from .reader import Reader, open_reader
from .recent import Commit, commit_at, counters, is_there, last_commit, last_rows
from .resumption import resume
from .schema import Extension
from .writer import Writer

__all__ = [
    "Commit",
    "Extension",
    "Holder",
    "Memory",
    "Reader",
    "Stream",
    "Writer",
    "commit_at",
    "counters",
    "create",
    "discard",
    "is_there",
    "last_commit",
    "last_rows",
    "merge_parts",
    "open_reader",
    "resume",
]
