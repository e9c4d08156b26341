"""What is kept of the commands: their help, what they print, and the API's own document."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Final

from proxy.cli.parser import commands
from tests.integration.recorded import world
from tests.integration.recorded_commands.desk import helped
from tests.integration.recorded_commands.life import lived

FOLDER: Final = Path(__file__).parent / "kept"


def recorded() -> dict[str, str]:
    """The text of each file, made anew; blocks until it is there."""
    helps = [
        helped(),
        *(helped(*one.words) for one in sorted(commands(), key=lambda one: one.words)),
    ]
    # The sidecar's own log would come between the lines of the commands.
    logging.disable()
    try:
        with tempfile.TemporaryDirectory() as base:
            lines, document = world.lived("commands", lambda world: lived(Path(base), world))
    finally:
        logging.disable(logging.NOTSET)
    return {"help.txt": "\n".join(helps), "lines.txt": lines, "openapi.txt": document}
