"""Dask: the plugin that makes its workers leave in order, and the connection to a scheduler.

Whoever imports this imports Dask. A worker's process has one main thread, which runs its event loop and a plugin's
set-up, and others that do tasks; SIGTERM would end it at once, and the nanny would begin another. With the plugin it
asks the runs for a stop, lets them commit, and closes the worker, so that the scheduler gives what it had to others
and holds no death against them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed import Client, Security, WorkerPlugin
from distributed.cfexecutor import ClientExecutor
from distributed.core import rpc

from ..._base import share
from ..._base.versions import PINNED_PACKAGES, differences, pinned
from .. import stop
from .leaving import initialise

CLOSES = "the closing of its Dask worker"
NO_SCHEDULERS = ("Worker", "Nanny")


class DaskPlugin(WorkerPlugin):
    """Stop runs in order when their worker closes, gets SIGTERM or is at the end of its lifetime.

    ``client.register_plugin(fastbm.workers.DaskPlugin())``; `connect` does so. Workers with other versions than
    where it was made are refused, unless `exact` is False.
    """

    name = "fastbm"
    idempotent = True

    def __init__(self, *, exact: bool = True) -> None:
        self.versions = pinned() if exact else ()

    def setup(self, worker: Any) -> None:
        """Prepare a worker's process; Dask calls it in the thread of the event loop."""
        _refuse(str(worker.address), self.versions)
        if threading.current_thread() is not threading.main_thread():
            return  # a worker within somebody's process, such as a test's, whose signals are not its own
        share.be_worker()
        initialise(lambda number: worker.loop.add_callback(worker.close_gracefully, reason="SIGTERM"))

    def teardown(self, worker: Any) -> None:
        """Ask for a stop as the worker closes: it waits for its threads, and the nanny for it."""
        stop.ask_all(CLOSES, for_good=share.prepared())


def _refuse(where: str, versions: tuple[str, ...]) -> None:
    if other := differences(dict(zip(PINNED_PACKAGES, versions, strict=False)), "where the work comes from"):
        raise ValueError(f"the Dask worker {where} would give other bits: {'; '.join(other)}.")


class Connection(ClientExecutor):
    """An executor that closes its client with itself, and knows whether its workers' versions must be ours."""

    exact = True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster as it is, and close the connection."""
        super().shutdown(wait=wait)
        self._client.close()


def connected(address: str, seconds: float, exact: bool) -> Connection:
    """Return an executor of a scheduler whose workers are as this process is."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # what fails is told in one line, below
    try:
        _look_for_scheduler(address, seconds)
        client = Client(address, timeout=seconds, set_as_default=False)
    finally:
        logger.setLevel(before)
    try:
        _check_workers(client, exact)
        client.register_plugin(DaskPlugin(exact=exact))
    except BaseException:
        client.close()
        raise
    connection = Connection(client)
    connection.exact = exact
    return connection


def _look_for_scheduler(address: str, seconds: float) -> None:
    """Refuse an address where no scheduler answers in time.

    A `Client` waits for ever for the first word of what listens there and is silent, and one that fails is told of by
    its finaliser at the end of the process.
    """
    with ThreadPoolExecutor(1) as thread:  # a notebook's has a loop that runs already
        try:
            kind = thread.submit(asyncio.run, asyncio.wait_for(_ask_kind(address, seconds), seconds + 0.5)).result()
        except (OSError, ValueError, TypeError) as error:
            why = " ".join(str(error).split()) or f"nothing was answered in {seconds:g} s"
        except Exception:  # whatever is read out of the words of another protocol
            why = "what answers there speaks otherwise"
        else:
            if kind not in NO_SCHEDULERS:
                return
            why = f"but a {kind}"
    raise ValueError(f"no Dask scheduler listens at {address} ({why}). Begin one with: dask scheduler.")


async def _ask_kind(address: str, seconds: float) -> str:
    arguments = Security().get_connection_args("client")
    async with rpc(address, timeout=seconds, connection_args=arguments) as there:
        return str((await there.identity())["type"])


def _check_workers(client: Client, exact: bool) -> None:
    """Refuse workers without fastbm, or, where bits are to be `exact`, with other versions."""
    for worker, found in client.run(pinned, on_error="return").items():
        if "ModuleNotFoundError" in repr(found):  # which comes as the text of another
            raise ValueError(f"the Dask worker {worker} lacks fastbm ({found}). Install it there as it is here.")
        if isinstance(found, BaseException):
            raise found
        if exact and (
            other := differences(dict(zip(PINNED_PACKAGES, found, strict=True)), f"on the Dask worker {worker}")
        ):
            raise ValueError(f"{'; '.join(other)}. Install the same versions there, or take the mixture: exact=False.")
