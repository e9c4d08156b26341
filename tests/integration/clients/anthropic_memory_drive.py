"""Runs inside an environment that holds an unmodified `anthropic` 2.

    python anthropic_memory_drive.py MODEL_URL KEY FOLDER how PROMPT

The SDK's tool runner with its own memory tool, files below FOLDER: does what PROMPT says, and
prints one JSON object: what the model said, and every file of the memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from anthropic import Anthropic
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

_, url, key, folder, how, prompt = sys.argv
client = Anthropic(base_url=url, api_key=key, max_retries=0)
runner = client.beta.messages.tool_runner(
    model="claude-scripted",
    max_tokens=256,
    max_iterations=12,
    messages=[{"role": "user", "content": prompt}],
    tools=[BetaLocalFilesystemMemoryTool(base_path=folder)],
    stream=how == "stream",
)
said: list[str] = []
for turn in runner:
    message = turn.get_final_message() if how == "stream" else turn
    said += [block.text for block in message.content if block.type == "text"]
files = {
    str(file.relative_to(folder)): file.read_text()
    for file in sorted(Path(folder).rglob("*"))
    if file.is_file()
}
sys.stdout.write(json.dumps({"said": said, "files": files}))
