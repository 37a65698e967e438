"""Streams of arrays on disk: immutable HDF5 segments while a run lives, one HDF5 file when it is done.

A run killed at any instant resumes and ends with every dataset byte-identical to the uninterrupted run's.
"""

from fastbm.store.creating import create
from fastbm.store.memory import Memory
from fastbm.store.merge import merge_parts
from fastbm.store.reader import Reader, open_reader
from fastbm.store.resuming import resume
from fastbm.store.schema import Stream
from fastbm.store.writer import Writer

__all__ = ["Memory", "Reader", "Stream", "Writer", "create", "merge_parts", "open_reader", "resume"]
