"""What holds for the whole test run."""

from __future__ import annotations

import signal

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL}


def pytest_configure() -> None:
    """Hear the signals that tests send: nohup, and shells that start a job in the background, have some ignored."""
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
