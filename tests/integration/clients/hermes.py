"""Hermes Agent as `examples/hermes/README.md` has a person set it up, with a scripted model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tests.integration.clients.process import run_client
from tests.integration.clients.recorder import Exchange, Recorder, recorder
from tests.integration.clients.scripted_model import ScriptedModel, Turn, scripted_model

DRIVE = Path(__file__).parent / "hermes_drive.py"
README = Path(__file__).resolve().parents[3] / "examples" / "hermes" / "README.md"
# A model on this machine, and nothing installed while the test runs.
CONFIG = """\
model:
  default: scripted
  provider: custom
  base_url: {model}
  api_key: nothing
security:
  allow_lazy_installs: false
"""


def readme_settings(url: str, key: str) -> tuple[str, str]:
    """The README's `.env` and its part of `config.yaml`, with this sidecar and this key."""
    text = README.read_text(encoding="utf-8")
    dotenv, yaml = re.findall(r"```(?:yaml)?\n((?:MEM0_HOST|memory:).*?)```", text, re.DOTALL)
    return dotenv.replace("http://127.0.0.1:7077", url).replace("mg_...", key), yaml


class Hermes:
    """One installation with a home of its own, a model and a recorder before the sidecar."""

    def __init__(self, interpreter: Path, home: Path, model: ScriptedModel, wire: Recorder) -> None:
        self.model = model
        self.wire = wire
        self.home = home
        self._interpreter = interpreter

    async def ask(self, prompt: str) -> str:
        """One turn of `hermes -z`, in a process of its own."""
        command = (self._interpreter.parent / "hermes", "-z", prompt, "--yolo")
        code, out, errors = await run_client(*command, home=self.home)
        assert code == 0, (out, errors[-2_000:])
        return out.strip()

    async def talk(self, *prompts: str) -> list[str]:
        """Several turns with one agent in one process."""
        code, out, errors = await run_client(self._interpreter, DRIVE, *prompts, home=self.home)
        assert code == 0, (out, errors[-2_000:])
        return msgspec.json.decode(out, type=list[str])

    def log(self) -> str:
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
        dotenv, memory = readme_settings(wire.url, key)
        (folder / ".env").write_text(dotenv, encoding="utf-8")
        config = CONFIG.format(model=model.url) + memory
        (folder / "config.yaml").write_text(config, encoding="utf-8")
        yield Hermes(interpreter, base / "home", model, wire)
