"""Entry point of the command ``foretell``; everything else is in ``commands``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it cleanly even while it is still starting."""
    try:
        from foretell.app.commands import app

        app()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
