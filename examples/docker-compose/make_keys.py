"""Two keys on two volumes: GATE_DIR GATE_UID AGENT_DIR AGENT_UID. A second run changes nothing."""

import os
import secrets
import sys
from pathlib import Path


def put(file: Path, key: str, uid: int) -> None:
    """One key, readable by one user. Written aside first, so that no reader sees half of it."""
    aside = file.with_suffix(".new")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w") as handle:  # noqa: PTH123
        handle.write(key)
        handle.flush()
        os.fsync(handle.fileno())
    os.chown(aside, uid, uid)
    aside.replace(file)


def main(gate: Path, gate_uid: int, agent: Path, agent_uid: int) -> None:
    # Last written, first asked for: where it is, all are.
    done = agent / "agent"
    if done.exists():
        return
    key = secrets.token_urlsafe(32)
    put(gate / "operator", secrets.token_urlsafe(32), gate_uid)
    put(gate / "agent", key, gate_uid)
    put(done, key, agent_uid)


try:
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
except (IndexError, ValueError):
    sys.exit("make_keys.py GATE_DIR GATE_UID AGENT_DIR AGENT_UID")
except OSError as error:
    sys.exit(f"no keys were made: {error}")
