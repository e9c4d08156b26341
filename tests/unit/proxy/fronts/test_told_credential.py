"""The sidecar's credential in an answer, however a server spells it."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from proxy.fronts.backend_server_front import CredentialSpellings

PLAIN = 'a-long-"credential"/0123?~>'
PASSWORD = "the-password-of-the-sidecar"
BASIC = "Basic " + b64encode(f"gate:{PASSWORD}".encode()).decode()


def is_told(value: str, said: str) -> bool:
    return CredentialSpellings([value]).is_in(said.encode())


@pytest.mark.parametrize("value", [PLAIN, f"Bearer {PLAIN}"])
@pytest.mark.parametrize(
    "said",
    [
        f"you sent {PLAIN}, which is wrong",
        json.dumps({"sent": PLAIN}),
        json.dumps({"sent": PLAIN}).replace("/", r"\/"),
        "".join(f"\\u{ord(one):04x}" for one in PLAIN),
        "".join(f"\\u{ord(one):04X}" for one in PLAIN),
        quote(PLAIN),
        quote(PLAIN, safe="").lower(),
        "".join(f"%{ord(one):02x}" for one in PLAIN),
        *(b64encode(f"{'u' * n}{PLAIN}{'v' * n}".encode()).decode() for n in range(6)),
        *(urlsafe_b64encode(f"{'u' * n}:{PLAIN}".encode()).decode() for n in range(6)),
        quote(b64encode(f"Bearer {PLAIN}".encode()).decode(), safe=""),
    ],
)
def test_every_spelling_of_the_sidecars_credential_is_known(value: str, said: str) -> None:
    assert is_told(value, said)
    # Controls: another credential, and a header's value that is none.
    assert not is_told(f"{value}4", said)
    assert not is_told("application/json", said)


@pytest.mark.parametrize(
    "said", [BASIC, f"gate:{PASSWORD}", PASSWORD, quote(BASIC), BASIC.removeprefix("Basic ")]
)
def test_what_basic_authentication_sends_in_base64_is_known_without_it(said: str) -> None:
    assert is_told(BASIC, said)
    assert not is_told(BASIC.replace("Basic", "Bearer"), PASSWORD), "the control"


def test_what_is_no_base64_is_searched_for_as_it_is() -> None:
    assert is_told("Basic no-base64-at-all-but-long", "no-base64-at-all-but-long")
    assert not CredentialSpellings([]).is_in(b"anything")
