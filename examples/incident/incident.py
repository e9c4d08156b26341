"""A wrong answer, from the lie in memory to the next answer, which is right.

    python examples/incident/incident.py [--mnemogate PATH]
    python examples/incident/incident.py --unasked [--mnemogate PATH]

It needs `mnemogate` and `openai`, no network and no model: a stand-in answers. With `--unasked`
nobody says that an answer was wrong, and `mnemogate` needs its extra `sentry`: a stand-in receives
the events. Everything is in a directory that is gone afterwards.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
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
MADE_OF_IT = "Campanha"
DERIVED = f"Visitors of the office take the tram from {MADE_OF_IT} station."
HOURS = "When does the reception open?"
# The first was true until the second was: what is true once is no lie.
ONCE = "The reception of the office opens at eight."
NOW = "The reception of the office opens at nine."
# For each question what the model may have read, the wrong one first, and how it answers.
KNOWN = {QUESTION: (LIE, TRUTH, "The office is in {}."), HOURS: ("eight", "nine", "At {}.")}
STATEMENTS = 2
# Words of the story that nobody is told who is only told of its incidents.
CONTENT = (LIE, TRUTH, MADE_OF_IT, "office", "reception", "eight", "nine")
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
        self.requests: list[bytes] = []

    def take(self, raw: bytes) -> dict[str, Any]:
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
            read = json.dumps([one for one in messages if one["role"] == "tool"])
            *values, says = KNOWN[messages[asked]["content"]]
            value = next((one for one in values if one in read), None)
            message["content"] = says.format(value) if value else "I do not know."
        reason = "tool_calls" if message["content"] is None else "stop"
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": 0,
            "model": "stand-in",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class Sentry:
    """A stand-in for Sentry, which keeps every byte that it is sent."""

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []

    def take(self, raw: bytes) -> dict[str, Any]:
        """Keep one envelope."""
        self.envelopes.append(raw)
        return {}


@contextmanager
def serving(take: Callable[[bytes], dict[str, Any]]) -> Iterator[int]:
    """A server on a free port of this machine, which answers every body by `take`; the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            said = json.dumps(take(self.rfile.read(int(self.headers["Content-Length"]))))
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
        try:
            yield server.server_address[1]
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

    def command(self, *words: str, code: int = 0) -> str:
        """Run one `mnemogate` command on this sidecar, which has to end with `code`; its output."""
        state = ("--state", str(self.place / "state"))
        done = subprocess.run(  # noqa: S603 - the program that was named
            [self.program, *words, *state], capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode != code:
            raise SystemExit(f"mnemogate {' '.join(words)}: {done.stderr}")
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
def running(program: str, place: Path, port: int, sentry: int | None = None) -> Iterator[Sidecar]:
    """`mnemogate run` in front of the model at `port`, on free ports."""
    secret = place / "provider"
    secret.write_text("Authorization: Bearer sk-of-the-provider\n")
    secret.chmod(0o600)
    settings = place / "mnemogate.toml"
    table = (
        f'[[model]]\nname = "openai"\napi = "openai"\nurl = "http://127.0.0.1:{port}"\n'
        f'headers_file = "{secret}"\n'
    )
    environment = dict(os.environ)
    if sentry is not None:
        table += '[after.sentry]\nallow = ["127.0.0.1/32"]\n'
        environment["SENTRY_DSN"] = f"http://{uuid.uuid4().hex}@127.0.0.1:{sentry}/1"
    settings.write_text(table)
    words = ["run", "--json", "--config", str(settings), "--state", str(place / "state")]
    words += ["--checkpoint", str(place / "beside" / "checkpoint.txt")]
    words += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(  # noqa: S603 - the program that was named
        [program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
        env=environment,
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


def told(model: Model, agent: Agent, *words: str) -> str:
    """Ask, print the answer and whether these words led to it; returns the id of the reply."""
    answer, reply_id = agent.ask(QUESTION)
    said, count = " or ".join(words), counted(model.requests[-1:], *words)
    print(f"{QUESTION} {answer} (in what the model read: {said} {count} times)")
    return reply_id


def counted(texts: list[bytes], *words: str) -> int:
    """How often one of the words stands in these texts."""
    return sum(text.count(word.encode()) for text in texts for word in words)


def story(sidecar: Sidecar, model: Model) -> None:
    """What happens, in order."""
    agent_key = sidecar.keys["agent"]
    sidecar.post("/v1/memories", sidecar.keys["operator"], {"text": RIGHT})
    ids = [sidecar.post("/v1/memories", agent_key, {"text": text})["id"] for text in LIES]
    sidecar.post("/v1/memories", agent_key, {"text": DERIVED, "derived_from": ids[:1]})
    told(model, Agent(sidecar), LIE, MADE_OF_IT)
    # While nobody says that this is wrong, it is said again in each conversation.
    agent = Agent(sidecar)
    reply_id = told(model, agent, LIE, MADE_OF_IT)
    words = ("key", "add", "ada", "--channel", "user", "--tenant", "default", "--json")
    persons_key = json.loads(sidecar.command(*words))["plain"]
    said = {"reply_id": reply_id, "verdict": "wrong", "forbid": LIE}
    noted = sidecar.post("/v1/feedback", persons_key, said)
    print(f"POST /v1/feedback {json.dumps(said)}")
    print(ended(sidecar, noted["incident"]), end="")
    told(model, Agent(sidecar), LIE, MADE_OF_IT)
    # The conversation that was wrong sends its earlier results again, and they are withheld.
    told(model, agent, LIE, MADE_OF_IT)


def unasked(sidecar: Sidecar, model: Model) -> None:
    """The same without a word from anybody: the operator registers what is true, that is all."""
    agent_key, operator_key = sidecar.keys["agent"], sidecar.keys["operator"]
    # What the operator said before is no correction of the lies, and what she said later is one.
    sidecar.post("/v1/memories", operator_key, {"text": RIGHT})
    once = sidecar.post("/v1/memories", agent_key, {"text": ONCE})["id"]
    ids = [sidecar.post("/v1/memories", agent_key, {"text": text})["id"] for text in LIES]
    sidecar.post("/v1/memories", agent_key, {"text": DERIVED, "derived_from": ids[:1]})
    now = sidecar.post("/v1/memories", operator_key, {"text": NOW})["id"]
    agent = Agent(sidecar)
    told(model, agent, LIE)
    registered(sidecar, "office", QUESTION, RIGHT, "--must-not", LIE)
    registered(sidecar, "hours", HOURS, NOW)
    # The next read leaves out what contradicts a statement, and that alone opens an incident.
    told(model, Agent(sidecar), LIE)
    opened(sidecar, "office")
    print(HOURS, Agent(sidecar).ask(HOURS)[0])
    opened(sidecar, "hours")
    # The conversation that was wrong sends its earlier results again, and they are withheld.
    told(model, agent, LIE, MADE_OF_IT)
    lines = sidecar.command("incident", "export", "--format", "ocsf").encode().splitlines()
    print(f"OCSF: {len(lines)} findings, {counted(lines, *CONTENT)} words of the story in them")
    tried(sidecar, "true once", once, code=1)
    tried(sidecar, "a lie", ids[0], code=1)
    # Eight is right again: the statement says so, and no newer memory says another thing.
    sidecar.command("memory", "purge", now, "--yes")
    registered(sidecar, "hours", HOURS, ONCE)
    tried(sidecar, "true once", once)
    tried(sidecar, "a lie", ids[0], code=1)
    shown = json.loads(sidecar.command("memory", "show", once, "--json"))
    print(f"true once, and again: class {shown['memory_class']}")
    print(HOURS, Agent(sidecar).ask(HOURS)[0])


def registered(sidecar: Sidecar, name: str, question: str, *statement: str) -> None:
    """Register what is true, and print the command that does it."""
    words = ("anchor", "put", *statement, "--question", question, "--id", name)
    print(f"mnemogate {shlex.join(words)}")
    sidecar.command(*words)


def opened(sidecar: Sidecar, name: str) -> None:
    """Print the incident that a statement opened, from its signal to its end."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listed = json.loads(sidecar.command("incident", "list", "--json"))["incidents"]
        found = [one for one in listed if one["anchor_id"] == name]
        if found:
            print(f"opened by {found[0]['signal']} {name}")
            print(ended(sidecar, found[0]["incident_id"]), end="")
            return
        time.sleep(0.1)
    raise SystemExit("no incident was opened within a minute")


def tried(sidecar: Sidecar, what: str, memory_id: str, code: int = 0) -> None:
    """Try to show a hidden memory again, and print how that ended."""
    said = sidecar.command("memory", "unhide", memory_id, "--json", code=code)
    [done] = json.loads(said)["standings"]
    against = done["trial"]["against"]
    shown = f"refused ({against})" if against else "passed"
    print(f"mnemogate memory unhide, {what}: {shown}")


def main() -> None:
    beside = Path(sys.executable).with_name("mnemogate")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnemogate", default=str(beside) if beside.is_file() else "mnemogate")
    parser.add_argument("--unasked", action="store_true", help="nobody says that it was wrong")
    asked = parser.parse_args()
    found = shutil.which(asked.mnemogate)
    if found is None:
        sys.exit(f"{asked.mnemogate} is no program: name mnemogate's with --mnemogate PATH")
    # The program runs in another directory, where a relative path leads nowhere.
    program, model = str(Path(found).absolute()), Model()
    with tempfile.TemporaryDirectory() as made, serving(model.take) as port:
        place = Path(made)
        if not asked.unasked:
            with running(program, place, port) as sidecar:
                story(sidecar, model)
            return
        sentry = Sentry()
        with serving(sentry.take) as receives:
            with running(program, place, port, receives) as sidecar:
                unasked(sidecar, model)
            # Steps within a minute of the first message are told at the next start.
            with running(program, place, port, receives):
                reported(sentry)


def reported(sentry: Sentry) -> None:
    """Wait until the last step of both incidents was sent, and print what was in the events."""
    deadline = time.monotonic() + 60
    while counted(sentry.envelopes, "incident of a wrong answer: healed") < STATEMENTS:
        if time.monotonic() > deadline:
            raise SystemExit("the events were not sent within a minute")
        time.sleep(0.1)
    events, found = len(sentry.envelopes), counted(sentry.envelopes, *CONTENT)
    print(f"Sentry: {events} events, {found} words of the story in them")


if __name__ == "__main__":
    main()
