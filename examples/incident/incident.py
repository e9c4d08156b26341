"""A wrong answer, from the lie in memory to the next answer, which is right.

    python examples/incident/incident.py [--mnemogate PATH]

It needs `mnemogate` and `openai`, no network and no model: a stand-in answers. Everything is in a
directory that is gone afterwards.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

try:
    from openai import OpenAI
except ModuleNotFoundError:
    sys.exit("openai is not installed here: pip install openai")

LIE, TRUTH = "Porto", "Lisbon"
QUESTION = "Where is the office?"
RIGHT = "The office is in Lisbon."
LIES = (
    "The office is in Porto.",
    "Since the move the office is in Porto.",
    "The address of the office: Porto, by the river.",
)
# It does not name the place, and is wrong all the same: it was made of the first lie.
DERIVED = "Visitors of the office take the tram from Campanha station."
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "search_memory",
            "description": "What was remembered.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }
]


class Model:
    """A stand-in for a model's server, in OpenAI's Chat Completions: a lie wins over the truth.

    `requests` are the bytes of every request that reached it.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[bytes] = []

    def reply(self, raw: bytes) -> dict[str, Any]:
        """One chat completion: it searches its memory once, and answers from what it found."""
        self.requests.append(raw)
        messages = json.loads(raw)["messages"]
        asked = max(at for at, one in enumerate(messages) if one["role"] == "user")
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if messages[-1]["role"] != "tool":
            query = json.dumps({"query": messages[asked]["content"]})
            function = {"name": "search_memory", "arguments": query}
            call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
            message["tool_calls"] = [call]
        else:
            read = json.dumps(messages)
            place = next((one for one in (LIE, TRUTH) if one in read), None)
            message["content"] = f"The office is in {place}." if place else "I do not know."
        reason = "tool_calls" if message["content"] is None else "stop"
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": 0,
            "model": "stand-in",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


@contextmanager
def serving() -> Iterator[Model]:
    """The model on a free port of this machine."""
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            said = json.dumps(model.reply(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_: object) -> None:
            """Stay silent: what is printed is the story."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


class Sidecar:
    """A running `mnemogate`, its keys, and how it is asked."""

    def __init__(self, program: str, place: Path, ready: dict[str, Any]) -> None:
        self.program = program
        self.place = place
        self.data, self.admin = ready["data"], ready["admin"]
        self.keys = {one["channel"]: one["key"] for one in ready["first_keys"]}

    def command(self, *words: str) -> str:
        """Run one `mnemogate` command on this sidecar; what it prints."""
        state = ("--state", str(self.place / "state"))
        done = subprocess.run(  # noqa: S603 - the program that was named
            [self.program, *words, *state], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def post(self, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request to the data listener."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(  # noqa: S310 - the address of our own sidecar
            f"{self.data}{path}", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found


class Agent:
    """An agent with a memory, as its author would write it: one conversation."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar, self._key = sidecar, sidecar.keys["agent"]
        base = f"{sidecar.data}/openai/v1"
        self._model = OpenAI(base_url=base, api_key=self._key, max_retries=0)
        self._messages: list[Any] = []

    def ask(self, question: str) -> tuple[str, str]:
        """The answer, and the id of the reply that has it."""
        self._messages.append({"role": "user", "content": question})
        while True:
            reply = self._model.chat.completions.create(
                model="stand-in", messages=self._messages, tools=TOOLS
            )
            message = reply.choices[0].message
            self._messages.append(message.to_dict(exclude_none=True))
            if not message.tool_calls:
                return message.content or "", reply.id
            for call in message.tool_calls:
                asked = json.loads(call.function.arguments)
                found = self._sidecar.post("/v1/search", self._key, asked)
                result = json.dumps(found["results"])
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@contextmanager
def running(program: str, place: Path, model: Model) -> Iterator[Sidecar]:
    """`mnemogate run` in front of the model, on free ports."""
    secret = place / "provider"
    secret.write_text("Authorization: Bearer sk-of-the-provider\n")
    secret.chmod(0o600)
    settings = place / "mnemogate.toml"
    settings.write_text(
        f'[[model]]\nname = "openai"\napi = "openai"\nurl = "{model.url}"\n'
        f'headers_file = "{secret}"\nuser_turns = "person"\n'
    )
    words = ["run", "--json", "--config", str(settings), "--state", str(place / "state")]
    words += ["--checkpoint", str(place / "beside" / "checkpoint.txt")]
    words += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(  # noqa: S603 - the program that was named
        [program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/"
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise SystemExit("mnemogate did not start: run it by hand to see why")
            yield Sidecar(program, place, json.loads(line))
        finally:
            process.terminate()


def ended(sidecar: Sidecar, incident: str) -> str:
    """The incident as `mnemogate incident show` prints it, once nothing more is done about it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        shown = sidecar.command("incident", "show", incident)
        if not any(f": {state}" in shown for state in ("opened", "reproduced", "convicted")):
            return shown
        time.sleep(0.1)
    raise SystemExit("the incident did not end within a minute")


def told(model: Model, agent: Agent) -> str:
    """Ask, print the answer, and return the id of its reply."""
    answer, reply_id = agent.ask(QUESTION)
    count = sum(model.requests[-1].count(word.encode()) for word in (LIE, "Campanha"))
    print(f"{QUESTION} {answer} (in what the model read: {LIE} or Campanha {count} times)")
    return reply_id


def story(sidecar: Sidecar, model: Model) -> None:
    """What happens, in order."""
    agent_key = sidecar.keys["agent"]
    sidecar.post("/v1/memories", sidecar.keys["operator"], {"text": RIGHT})
    ids = [sidecar.post("/v1/memories", agent_key, {"text": text})["id"] for text in LIES]
    sidecar.post("/v1/memories", agent_key, {"text": DERIVED, "derived_from": ids[:1]})
    told(model, Agent(sidecar))
    # While nobody says that this is wrong, it is said again in each conversation.
    agent = Agent(sidecar)
    reply_id = told(model, agent)
    words = ("key", "add", "ada", "--channel", "user", "--tenant", "default", "--json")
    persons_key = json.loads(sidecar.command(*words))["plain"]
    said = {"reply_id": reply_id, "verdict": "wrong", "forbid": LIE}
    noted = sidecar.post("/v1/feedback", persons_key, said)
    print(f"POST /v1/feedback {json.dumps(said)}")
    print(ended(sidecar, noted["incident"]), end="")
    told(model, Agent(sidecar))
    # The conversation that was wrong sends its earlier results again, and they are withheld.
    told(model, agent)


def main() -> None:
    beside = Path(sys.executable).with_name("mnemogate")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnemogate", default=str(beside) if beside.is_file() else "mnemogate")
    asked = parser.parse_args()
    program = shutil.which(asked.mnemogate)
    if program is None:
        sys.exit(f"{asked.mnemogate} is no program: name mnemogate's with --mnemogate PATH")
    with (
        tempfile.TemporaryDirectory() as place,
        serving() as model,
        # The program runs in another directory, where a relative path leads nowhere.
        running(str(Path(program).absolute()), Path(place), model) as sidecar,
    ):
        story(sidecar, model)


if __name__ == "__main__":
    main()
