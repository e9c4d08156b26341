"""Every operator command and the operator API's document are as they were recorded."""

from __future__ import annotations

import difflib
import sys

import pytest

from tests.integration.recorded_commands.recording import FOLDER, recorded

_SHOWN: int = 40


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help otherwise")
def test_every_command_prints_what_was_recorded() -> None:
    for name, text in recorded().items():
        kept = (FOLDER / name).read_text(encoding="utf-8")
        lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), n=2, lineterm="")
        told = "\n".join(line[:300] for line, _ in zip(lines, range(_SHOWN), strict=False))
        again = "`python -P -m tests.integration.recorded_commands` records anew"
        assert kept == text, f"{name} differs ({again}):\n{told}"
