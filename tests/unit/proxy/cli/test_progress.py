from __future__ import annotations

import io

import pytest

from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.progress import working
from proxy.cli.terminal import Terminal


class BrokeError(Exception):
    """Anything that work may raise."""


@pytest.mark.parametrize(
    "error", [CommandFailed(Exit.NOT_FOUND, "no such memory"), BrokeError("so")]
)
@pytest.mark.parametrize("progress", [False, True])
async def test_a_failure_inside_comes_out_as_itself(progress: bool, error: Exception) -> None:  # noqa: FBT001
    terminal = Terminal(io.StringIO(), io.StringIO(), as_json=False, progress=progress)

    with pytest.raises(type(error)) as found:
        async with working(terminal, "purging"):
            raise error
    assert found.value is error
