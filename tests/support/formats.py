"""The runs that `tests/data` keeps in every format ever released: how each is begun, and what is known of its rows.

Couplings and rows are whole numbers, so that energies and states are the same on every machine.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import fastbm as bm
from fastbm import store

DATA = Path(__file__).parents[1] / "data"
FORMATS = sorted(path.name for path in DATA.glob("format-*"))
STREAMS = {
    "samples/states": store.Stream("|u1", (2, 3), {"n_units": 20, "bitorder": "little", "one": 1}),
    "samples/energy": store.Stream("<f8", (2,)),
}
N_BLOCKS, N_BASE = 6, 3  # of the run that was extended, and of its merged first part


def sample(out: Path, **options: Any) -> bm.Run:
    """Sample a ring of 20 spins."""
    ring = np.roll(np.eye(20), 1, axis=1)
    model = bm.BoltzmannMachine(scipy.sparse.csr_array(ring + ring.T), np.ones(20))
    return bm.sample(model, **{"n_chains": 4, "n_sweeps": 12, "thin": 2, "beta": 0.5, "seed": 5, "out": out, **options})


def fit(out: Path, **options: Any) -> bm.Run:
    """Learn four pixels, with an optimiser that has a memory."""
    rows = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    settings = {"n_hidden": 2, "epochs": 4, "batch_size": 2, "n_chains": 4, "optimizer": "adam", "seed": 5}
    return bm.fit(rows, **{**settings, "out": out, **options})


def stored(out: Path, n_blocks: int = N_BLOCKS, **options: Any) -> store.Writer:
    """Begin a run of the store itself, of so many blocks."""
    return store.create(
        out, spec={"n_blocks": n_blocks}, streams=STREAMS, state=state_after(0), inputs={"w": np.eye(3)}, **options
    )


def append(writer: store.Writer, first: int, end: int) -> None:
    """Compute and commit some blocks of a run of the store."""
    for block in range(first, end):
        states = np.arange(6 * (block % 3), dtype=np.uint8).reshape(-1, 2, 3) + block
        writer.append({"samples/states": states, "samples/energy": np.full((1, 2), block)}, dict)
        writer.commit(state_after(block + 1))


def state_after(block: int) -> dict[str, np.ndarray]:
    return {"rng": np.array([7 + block], np.uint64)}


def known(path: Path) -> dict[str, Any]:
    """What `expected.json` keeps of a run: spec, blocks and whether it is finished; dtype, shape and hash of arrays."""
    with store.open_reader(path) as reader:
        arrays = {f"rows/{name}": reader.read(name) for name in reader.streams if not name.startswith("meta/")}
        arrays |= {f"inputs/{name}": array for name, array in reader.inputs.items()}
        arrays |= {f"state/{name}": array for name, array in reader.state.items()}
        kept = {name: [array.dtype.str, list(array.shape), digest(array)] for name, array in sorted(arrays.items())}
        return {"spec": reader.spec, "n_blocks": reader.n_blocks, "finished": reader.finished, "arrays": kept}


def digest(array: np.ndarray) -> str:
    data = "\0".join(array.flat).encode() if array.dtype.kind == "O" else np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]
