"""The command `fastbm`, also as `python -m fastbm`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is loaded ends the process and nothing else, as nothing was begun."""
    if plain := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from . import cli

    if plain:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
