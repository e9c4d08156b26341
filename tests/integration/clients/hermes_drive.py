"""Runs inside an environment that holds an unmodified Hermes Agent; knows nothing of the sidecar.

    python hermes_drive.py PROMPT...

One agent, built as `hermes -z` builds it, hears every prompt in turn: what `hermes -z` cannot do,
because it ends after one. Prints the last words of each turn as a JSON list.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from hermes_cli.config import load_config
from hermes_cli.runtime_provider import resolve_runtime_provider
from run_agent import AIAgent


def main() -> None:
    model = load_config()["model"]["default"]
    runtime = resolve_runtime_provider(requested=None, target_model=model)
    said: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()):
        agent = AIAgent(
            api_key=runtime["api_key"],
            base_url=runtime["base_url"],
            provider=runtime["provider"],
            api_mode=runtime["api_mode"],
            model=model,
            enabled_toolsets=["memory"],
            quiet_mode=True,
            platform="cli",
        )
        history: list[dict[str, object]] = []
        for prompt in sys.argv[1:]:
            result = agent.run_conversation(prompt, conversation_history=history)
            history = result["messages"]
            said.append(result["final_response"])
        agent.shutdown_memory_provider(history)
        agent.close()
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
