"""Entry point of the command ``foretell``; everything else is in ``commands``."""

import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it cleanly even while it is still starting."""
    try:
        gc.disable()  # nothing that an import makes is garbage; looking for it takes time
        from foretell.app.commands import app

        gc.freeze()  # nor is it looked for at the end
        gc.enable()
        app()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
