"""An operator's command beside a sidecar in the test's own loop, without a process of its own."""

from __future__ import annotations

import inspect
import io
import json
import os
from typing import Any, NamedTuple
from unittest.mock import patch

from proxy.cli.command import Context
from proxy.cli.exits import CommandFailed
from proxy.cli.parser import build_parser
from proxy.cli.terminal import Terminal
from tests.integration.running import Running


class Line(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str

    @property
    def data(self) -> Any:  # noqa: ANN401 - what `--json` printed
        assert self.out.startswith("{"), self.out
        return json.loads(self.out)


async def line(sidecar: Running, *words: str, knows_settings: bool = True) -> Line:
    """Run one command line, as a user who may read the sidecar's settings and open its socket.

    Without `knows_settings` the command is not told where the sidecar's settings are.
    """
    config = ("--config", str(sidecar.state.parent / "mnemogate.toml"))
    places = ("--state", str(sidecar.state), *(config if knows_settings else ()))
    known = build_parser(*words).parse_args([*words, *places])
    asked = vars(known)
    command = asked.pop("command")
    printed = io.StringIO()
    terminal = Terminal(printed, printed, as_json=asked.pop("json"), progress=False)
    asked.pop("progress")
    try:
        # No variable of the machine decides a test.
        with patch.dict(os.environ):
            for name in [one for one in os.environ if one.startswith("MNEMOGATE_")]:
                del os.environ[name]
            done = command.act(Context(known, terminal))
            code = await done if inspect.isawaitable(done) else done
    except CommandFailed as failure:
        return Line(failure.code, f"{failure.what}\n{failure.then}")
    return Line(code, printed.getvalue())
