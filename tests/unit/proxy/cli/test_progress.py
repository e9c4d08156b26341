from __future__ import annotations

import io

import pytest

from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.progress import working
from proxy.cli.terminal import Terminal


@pytest.mark.parametrize("progress", [False, True])
async def test_a_failure_inside_comes_out_as_itself(progress: bool) -> None:  # noqa: FBT001
    terminal = Terminal(io.StringIO(), io.StringIO(), as_json=False, progress=progress)

    with pytest.raises(CommandFailed):
        async with working(terminal, "purging"):
            raise CommandFailed(Exit.NOT_FOUND, "no such memory")
