"""A product's own dialog: it is told what waits, shows it to its person, and carries out her word.

    python dialog.py /run/secrets/webhook-secret

It takes the notices of `[review.webhook]` at port 8099 and asks in this terminal. It runs
`mnemogate review` with the operator's credential, so it runs where no agent does.
"""

import argparse
import base64
import hashlib
import hmac
import json
import queue
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

LATE_S = 300
BODY_BYTES_MAX = 1_000_000


def is_signed(key: bytes, headers: dict[str, str], body: bytes) -> bool:
    """Whether a notice has this key's signature, as Standard Webhooks says, and is not old."""
    stamp = headers.get("webhook-timestamp", "")
    if not stamp.isdecimal() or abs(time.time() - int(stamp)) > LATE_S:
        return False
    signed = f"{headers.get('webhook-id', '')}.{stamp}.".encode() + body
    made = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(f"v1,{made}".encode(), one.encode()) for one in given)


def receiver(port: int, key: bytes, waiting: "queue.Queue[str]") -> HTTPServer:
    """A server that puts the id of each candidate of a signed notice into `waiting`, once."""
    known: set[str] = set()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            size = int(length) if length.isdecimal() else 0
            body = self.rfile.read(min(size, BODY_BYTES_MAX))
            headers = {name.lower(): value for name, value in self.headers.items()}
            signed = is_signed(key, headers, body)
            for one in json.loads(body)["data"]["held"] if signed else ():
                if one["id"] not in known:
                    known.add(one["id"])
                    waiting.put(one["id"])
            self.send_response(204 if signed else 401)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing: this terminal is the person's."""

    return HTTPServer(("127.0.0.1", port), Receiver)


def review(program: str, *words: str) -> str:
    """What `mnemogate review` prints. Its errors are shown to the person."""
    done = subprocess.run(  # noqa: S603 - the words are an id and a verb
        [program, "review", *words], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout


def asked(program: str, candidate_id: str) -> None:
    """Show one candidate to the person, and carry out what she says."""
    found = review(program, "show", "--json", candidate_id)
    if not found:
        return  # it was decided elsewhere, or has expired
    held: dict[str, Any] = json.loads(found)
    # Another's text may be in here: `!a` leaves no sign in it that could pass for this dialog.
    print(f"Your agent asks to remember: {held['text']!a}\nAllow it? yes or no: ", end="")
    sys.stdout.flush()
    verb = "release" if sys.stdin.readline().strip() == "yes" else "deny"
    print(review(program, verb, candidate_id), end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a person what her agent may remember.")
    parser.add_argument("secret_file", help="the file that [review.webhook] names")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--mnemogate", default="mnemogate", help="the program")
    given = parser.parse_args()
    waiting: queue.Queue[str] = queue.Queue()
    try:
        secret = Path(given.secret_file).read_text(encoding="ascii").strip()
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        server = receiver(given.port, key, waiting)
    except (OSError, ValueError) as error:
        sys.exit(f"no dialog: {error}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        asked(given.mnemogate, waiting.get())


if __name__ == "__main__":
    main()
