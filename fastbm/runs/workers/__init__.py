"""Workers (`fastbm.workers`): pools of processes, Dask and MPI, and how their processes leave in order.

A library's call never takes over a process's signals outside its main thread; whoever owns the process does, with
`initialise` or the plugin for Dask. Then SIGTERM, a Dask worker that closes and a parent that is gone ask every run
of the process for a stop, in whatever thread it is.

Dask and MPI are imported only where they are asked for.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from ..._base import checks
from .leaving import initialise

if TYPE_CHECKING:
    from .dask import DaskPlugin

METHODS = ("forkserver", "spawn")  # how processes are started: the first that the system has; forks copy threads' locks
CONNECT_SECONDS = 3.0  # after which no scheduler is there

__all__ = ["DaskPlugin", "connect", "initialise", "mpi", "pool"]


def __getattr__(name: str) -> Any:
    if name == "DaskPlugin":
        return _of_dask().DaskPlugin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pool(n_workers: int) -> ProcessPoolExecutor:
    """Return a pool of `n_workers` new processes on this machine.

    They compute on one thread each unless told, stop in order (`initialise`) and end when this process is gone. As with
    every pool of new processes, a script must guard what it does by ``if __name__ == "__main__":``.
    """
    n_workers = checks.whole("n_workers", n_workers, least=1)
    return ProcessPoolExecutor(n_workers, mp_context=new_processes(), initializer=initialise)


def new_processes() -> Any:
    """Return the context of `multiprocessing` that begins processes which share no locks with this one."""
    there = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context(next(method for method in METHODS if method in there))


def connect(address: str, *, exact: bool = True) -> Executor:
    """Return an executor of the Dask scheduler at `address`, such as ``tcp://node7:8786``.

    Its workers get `DaskPlugin`. `shutdown`, and so the end of ``with``, closes the connection and leaves the cluster.

    Parameters
    ----------
    address : str
    exact : bool
        Whether workers with other versions of what bits depend on are refused; False takes the mixture.

    Raises
    ------
    ValueError
        If no scheduler listens there, or a worker lacks fastbm or has other versions.
    """
    found: Executor = _of_dask().connected(address, CONNECT_SECONDS, exact)
    return found


def mpi(n_workers: int | None = None) -> Executor:
    """Return an executor of the processes that MPI has started.

    The script runs under ``mpiexec -n N python -m mpi4py.futures script.py``: one process does the script, N - 1 work.
    """
    try:
        from mpi4py.futures import MPIPoolExecutor
    except ImportError as error:
        raise ImportError(f'MPI needs mpi4py ({error}): pip install "fastbm[mpi]".') from None
    found: Executor = MPIPoolExecutor(n_workers, initializer=initialise)
    return found


def _of_dask() -> Any:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(f'Dask needs distributed ({error}): pip install "fastbm[dask]".') from None
    from . import dask

    return dask
