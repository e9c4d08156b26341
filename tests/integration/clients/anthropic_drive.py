"""Runs inside an environment that holds an unmodified `anthropic`; knows nothing of the sidecar.

    ANTHROPIC_BASE_URL=... python anthropic_drive.py FOLDER PAGE stream|whole PROMPT...

The tool runner of the SDK with its own memory tool on files below FOLDER, and a tool that reads
PAGE. Each prompt is a conversation of its own. Prints the last words of each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from anthropic import Anthropic, beta_tool
from anthropic.tools import BetaLocalFilesystemMemoryTool


def main() -> None:
    folder, page, mode, *prompts = sys.argv[1:]

    @beta_tool
    def fetch_page(url: str) -> str:
        """Read a page.

        Args:
            url: Where it is.
        """
        del url
        return Path(page).read_text(encoding="utf-8")

    client = Anthropic(max_retries=0)
    said: list[str] = []
    for prompt in prompts:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=1024,
            messages=[{"role": "user", "content": prompt}],
            tools=[BetaLocalFilesystemMemoryTool(base_path=folder), fetch_page],
            stream=mode == "stream",
        )
        last = runner.until_done()
        said.append("\n".join(block.text for block in last.content if block.type == "text"))
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
