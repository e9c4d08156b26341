"""Hermes Agent as a person would set it up: a model, Mem0 as its memory, and where that is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.integration.clients.process import run_client
from tests.integration.clients.recorder import Exchange, Recorder, recorder
from tests.integration.clients.scripted_model import ScriptedModel, Turn, scripted_model

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

DRIVE = Path(__file__).parent / "hermes_drive.py"
CONFIG = """\
model:
  default: scripted
  provider: custom
  base_url: {model}
  api_key: nothing
memory:
  provider: mem0
  memory_enabled: false
  user_profile_enabled: false
security:
  allow_lazy_installs: false
"""


class Hermes:
    """One installation with a home of its own, a model and a recorder before the sidecar."""

    def __init__(
        self, interpreter: Path, home: Path, key: str, model: ScriptedModel, wire: Recorder
    ) -> None:
        self.model = model
        self.wire = wire
        self.home = home
        self._interpreter = interpreter
        self._environment = {
            "HERMES_HOME": str(home / ".hermes"),
            "MEM0_HOST": wire.url,
            "MEM0_API_KEY": key,
            "MEM0_USER_ID": "alice",
            "MEM0_TELEMETRY": "false",
            "DO_NOT_TRACK": "1",
        }

    async def ask(self, prompt: str) -> str:
        """One turn of `hermes -z`, in a process of its own."""
        command = (self._interpreter.parent / "hermes", "-z", prompt, "--yolo")
        code, out, errors = await run_client(
            *command, home=self.home, environment=self._environment
        )
        assert code == 0, (out, errors[-2_000:])
        return out.strip()

    async def talk(self, *prompts: str) -> list[str]:
        """Several turns with one agent in one process."""
        code, out, errors = await run_client(
            self._interpreter, DRIVE, *prompts, home=self.home, environment=self._environment
        )
        assert code == 0, (out, errors[-2_000:])
        return msgspec.json.decode(out, type=list[str])

    def log(self) -> str:
        """What Hermes wrote into its own logs."""
        logs = sorted((self.home / ".hermes" / "logs").glob("*.log"))
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)


@asynccontextmanager
async def hermes(
    interpreter: Path,
    base: Path,
    to: tuple[str, str],
    script: Mapping[str, Turn],
    change: Callable[[Exchange], None] | None = None,
) -> AsyncGenerator[Hermes]:
    """Hermes with a scripted model. `to` is the sidecar's URL and a key for it."""
    url, key = to
    async with scripted_model(script) as model, recorder(url, change) as wire:
        folder = base / "home" / ".hermes"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG.format(model=model.url), encoding="utf-8")
        yield Hermes(interpreter, base / "home", key, model, wire)
