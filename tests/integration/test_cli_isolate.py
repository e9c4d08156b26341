"""A leaked key through the real command line: what it wrote is hidden, and given back."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from proxy.cli.exits import Exit
from tests.integration.cli_process import DEADLINE_S, Place, Running


def _texts(sidecar: Running, key: str) -> set[str]:
    asked = urllib.request.Request(  # noqa: S310 - a server of this test
        f"{sidecar.ready['data']}/v1/memories", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(asked, timeout=DEADLINE_S) as answer:  # noqa: S310 - as above
        return {one["text"] for one in json.load(answer)["memories"]}


def test_what_a_leaked_key_wrote_is_isolated_with_what_follows_from_it_and_given_back(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        mine = sidecar.key("operator")
        lie = sidecar.write(key, text="The vendor is Acme.")[1]["id"]
        sidecar.write(mine, text="Orders go to Acme.", derived_from=[lie])
        sidecar.write(mine, text="The office is in Lisbon.")
        everything = {"The vendor is Acme.", "Orders go to Acme.", "The office is in Lisbon."}
        assert _texts(sidecar, key) == everything

        whom = ("--principal", "agent", "--with-descendants")
        dry = place.command("isolate", *whom, "--dry-run", "--json").data
        assert (dry["caught_count"], dry["incident"]) == (2, None)
        assert {one["descendant"] for one in dry["caught"]} == {True, False}
        assert _texts(sidecar, key) == everything

        done = place.command("isolate", *whom, "--reason", "key leaked", "--json").data
        incident_id = done["incident"]["incident_id"]
        assert (done["changed"], done["incident"]["stage"]) == (2, "done")
        assert _texts(sidecar, key) == {"The office is in Lisbon."}
        listed = place.command("isolate", "--list").out
        assert "principal agent, with descendants" in listed
        back = place.command("isolate", "--undo", incident_id[:6])
        assert (back.code, "2 shown again" in back.out) == (Exit.OK, True)
        assert _texts(sidecar, key) == everything

        unknown = place.command("isolate", "--undo", "0" * 16)
        assert unknown.code == Exit.NOT_FOUND
        assert "isolate --list" in unknown.err
        nobody = place.command("isolate", "--principal", "nobody", "--dry-run")
        assert (nobody.code, "no memory fits" in nobody.out) == (Exit.NOT_FOUND, True)
        assert place.command("isolate", "--principal", "nobody").code == Exit.NOT_FOUND


def test_memories_go_back_to_a_version_and_forth_again(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        for text in ("The vendor is Acme.", "The office is in Lisbon.", "Ada likes tea."):
            assert sidecar.write(key, text=text)[0] == 201
        everything = _texts(sidecar, key)
        rewound = place.command("rewind", "--to", "1", "--json").data
        assert (rewound["hidden"], rewound["version"]) == (2, 1)
        assert _texts(sidecar, key) == {"The vendor is Acme."}
        assert place.command("rewind", "--to", "3").code == Exit.OK
        assert _texts(sidecar, key) == everything
        future = place.command("rewind", "--to", "99")
        assert (future.code, "the newest is version 3" in future.err) == (Exit.USAGE, True)
        nonsense = place.command("rewind", "--to", "nonsense")
        assert (nonsense.code, "the number of a version" in nonsense.err) == (Exit.USAGE, True)
        assert _texts(sidecar, key) == everything
    assert place.command("audit", "verify").code == Exit.OK


def test_a_rewind_says_how_it_is_taken_back_and_whom_it_did_not_find(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        for text in ("The vendor is Acme.", "The office is in Lisbon."):
            assert sidecar.write(key, text=text)[0] == 201
        done = place.command("rewind", "--to", "1", "--principal", "agent")
        assert (done.code, _texts(sidecar, key)) == (Exit.OK, {"The vendor is Acme."})
        told = next(line for line in done.out.splitlines() if "take it back with" in line)
        assert ": mnemogate rewind --undo " in told
        assert sum(line.endswith("  hidden") for line in done.out.splitlines()) == 1
        back = place.command(*told.partition(": mnemogate ")[2].split())
        assert (back.code, len(_texts(sidecar, key))) == (Exit.OK, 2)
        # An undo prints its own way back, which no version would name: the version is still 2.
        forth = next(line for line in back.out.splitlines() if "take it back with" in line)
        again = place.command(*forth.partition(": mnemogate ")[2].split())
        assert (again.code, _texts(sidecar, key)) == (Exit.OK, {"The vendor is Acme."})
        assert place.command("rewind", "--undo", "0" * 16).code == Exit.NOT_FOUND
        mixed = place.command("rewind", "--undo", "0" * 16, "--to", "2")
        assert (mixed.code, "--undo INCIDENT alone" in mixed.err) == (Exit.USAGE, True)
        # Control: there is nothing to do, and yet somebody is meant.
        assert place.command("rewind", "--to", "2", "--principal", "agent").code == Exit.OK
        for nobody in (("--principal", "nobody"), ("--tenant", "nope")):
            missed = place.command("rewind", "--to", "1", *nobody)
            assert (missed.code, "no memory fits" in missed.out) == (Exit.NOT_FOUND, True)
        isolated = place.command("isolate", "--principal", "agent", "--reason", "a leak")
        assert isolated.code == Exit.OK
        incident = isolated.out.split()[1].rstrip(":")
        listed = place.command("memory", "list", "--quarantined", "--json").data["memories"]
        shown = place.command("memory", "show", listed[0]["memory_id"])
        assert "quarantined: no agent is given it" in shown.out
        assert re.search(rf"hidden \S+ by \S+: incident {incident}\n", shown.out)
        assert f"mnemogate memory unhide {listed[0]['memory_id']}" in shown.out
        assert f"mnemogate isolate --undo {incident}" in shown.out
        hidden = place.command("memory", "export", "--with-proofs", str(tmp_path / "none.jsonl"))
        assert (hidden.code, "what is quarantined is not" in hidden.err) == (Exit.NOT_FOUND, True)
        assert place.command("isolate", "--undo", incident).code == Exit.OK
        assert place.command("rewind", "--to", "2").code == Exit.OK  # both are live again
        exported = tmp_path / "mine.jsonl"
        for options, said in (
            (("--with-proofs", str(tmp_path / "no" / "x")), "No such file or directory"),
            (("--with-proofs", str(exported), "--tenant", "nope"), "has no live memory"),
        ):
            refused = place.command("memory", "export", *options)
            assert (refused.code != Exit.OK, said in refused.err) == (True, True)
            assert not exported.exists()
        assert place.command("memory", "export", "--with-proofs", str(exported)).code == Exit.OK
        checked = place.command("audit", "verify", "--export", str(exported))
        assert (checked.code, "no later step followed" in checked.out) == (Exit.OK, True)
