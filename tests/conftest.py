"""What holds for the whole test run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take a folder of data that do not come with fastbm; tests that need one of them are skipped where it is not."""
    parser.addoption("--data", metavar="FOLDER", help="where mnist.npz, example15.mat and example50.mat lie")


def pytest_configure(config: pytest.Config) -> None:
    """Hear the signals that tests send: nohup, and shells that start a job in the background, have some ignored."""
    if config.getoption("--data"):
        os.environ["FASTBM_TEST_DATA"] = os.path.abspath(config.getoption("--data"))
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for no garbage among some thousand tests, neither as they come together nor after it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def fork_what_is_done_apart() -> Iterator[None]:
    """Verify files of others in forks, as a new interpreter takes long; `tests/store/test_hostile.py` has one."""
    from tests.support import forked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked.apart, "call", forked.call)
        yield


@pytest.fixture(autouse=True, scope="module")
def end_threads() -> Iterator[None]:
    """Leave no pool of threads behind: tests that fork must not find any."""
    yield
    if "fastbm._base.threads" in sys.modules:
        from tests.support import machines

        machines.close_pools()
