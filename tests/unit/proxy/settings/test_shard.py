"""The `[shard]` table: a secret in a file of its own, and a store that no command opens beside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.compose.app import compose
from proxy.settings.load import load_settings
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import Address

URL = "postgresql://pg:correct-horse@127.0.0.1/memory"


def settings(
    root: Path, url: str = URL, mode: int = 0o600, peers: str = "[::1]:7079", more: str = ""
) -> Settings:
    root.chmod(0o700)
    dsn = root / "dsn"
    dsn.write_text(f"{url}\n")
    dsn.chmod(mode)
    file = root / "m.toml"
    file.write_text(
        f'[shard]\nname = "team"\ndsn = "{dsn}"\nsecrets = "{root / "secrets"}"\n'
        f'peers = "{peers}"\n{more}'
    )
    return load_settings({"state": str(root / "state")}, environment={}, config=file)


def test_the_url_is_read_from_its_file_and_shown_nowhere(tmp_path: Path) -> None:
    shard = settings(tmp_path).shard
    assert shard is not None
    assert shard.url.reveal() == URL
    assert shard.address == Address(host="::1", port=7079)
    assert "correct-horse" not in repr(shard)
    assert shard.keys is None
    keyed = settings(tmp_path, more='keys = "/srv/keys"\n').shard
    assert keyed is not None
    assert keyed.keys == Path("/srv/keys")


@pytest.mark.parametrize(
    ("url", "mode", "peers", "told"),
    [
        (URL, 0o644, "127.0.0.1:1", "shard: dsn: must be a file that others cannot read"),
        ("short", 0o600, "127.0.0.1:1", "shard: dsn: must be a file with one line"),
        (URL, 0o600, "here", "shard: peers: must be HOST:PORT"),
    ],
)
def test_a_file_that_others_read_and_a_bad_address_are_refused(
    tmp_path: Path, url: str, mode: int, peers: str, told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(tmp_path, url, mode, peers)
    assert str(refused.value).startswith(told)
    assert "correct-horse" not in str(refused.value)


async def test_a_command_without_the_lease_does_not_open_the_store_of_a_shard(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match="only `mnemogate run` opens the store of a shard"):
        async with compose(settings(tmp_path)):
            pass
    assert not (tmp_path / "state").exists()


@pytest.mark.heavy
def test_who_has_no_shard_loads_no_client_of_a_database() -> None:
    program = "import sys, proxy.compose.app, proxy.cli.run; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode == 0


@pytest.mark.heavy
def test_a_shard_without_the_driver_of_its_database_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from pathlib import Path; from storage.shard import join_shard\n"
        "join_shard('test', 'postgresql://pg@localhost/memory', Path('/'), address='')"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=False)
    assert b"StoreUnavailable: a shard needs asyncpg: install mnemogate[postgres]" in done.stderr
