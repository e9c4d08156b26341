from __future__ import annotations

import pytest

from proxy.seams.operation import HttpRequest
from tests.unit.proxy.dialects.mem0.sample import OSS, PLATFORM

TOKEN = {"authorization": "Token k"}
BEARER = {"authorization": "Bearer k"}
API_KEY = {"x-api-key": "k"}
NONE: dict[str, str] = {}


@pytest.mark.parametrize(
    ("path", "headers", "owner"),
    [
        # The same words with and without the slash, under each scheme: only one may claim each.
        ("/v1/memories/", TOKEN, "mem0"),
        ("/v1/memories/", {"authorization": "token k"}, "mem0"),
        ("/v1/memories/", BEARER, None),
        ("/v1/memories/", API_KEY, None),
        ("/v1/memories/", NONE, None),
        ("/v1/memories", TOKEN, None),
        ("/v1/memories", BEARER, None),
        ("/v1/memories", API_KEY, None),
        ("/v1/memories/11111111-1111-4111-8111-111111111111", TOKEN, None),
        ("/v1/memories/11111111-1111-4111-8111-111111111111/", TOKEN, "mem0"),
        ("/v1/memories/search", BEARER, None),
        ("/v1/memories/search/", TOKEN, "mem0"),
        ("/v1/ping/", TOKEN, "mem0"),
        ("/v1/ping/", BEARER, None),
        ("/v1/ping", TOKEN, None),
        ("/v1/whoami", TOKEN, None),
        ("/v2/entities/user/alice/", TOKEN, "mem0"),
        ("/v2/memories/", TOKEN, "mem0"),
        ("/v3/memories/add/", TOKEN, "mem0"),
        ("/v3/memories/add/", BEARER, None),
        # A route nobody knows is still the platform's: it is refused in the platform's shape.
        ("/v1/webhooks/", TOKEN, "mem0"),
        ("/v4/memories/", TOKEN, None),
        ("/api/v2/tenants/t/databases/d/collections", TOKEN, None),
        ("/store/items", TOKEN, None),
        ("/mcp/memory", BEARER, None),
        # The self-hosted server's bare routes.
        ("/memories", API_KEY, "mem0_oss"),
        ("/memories", BEARER, "mem0_oss"),
        ("/memories", NONE, "mem0_oss"),
        ("/memories", TOKEN, None),
        ("/memories/", API_KEY, None),
        ("/memories/m1", API_KEY, "mem0_oss"),
        ("/memories/m1/history", API_KEY, "mem0_oss"),
        ("/memoriesx", API_KEY, None),
        ("/search", API_KEY, "mem0_oss"),
        ("/entities", API_KEY, "mem0_oss"),
        ("/reset", API_KEY, "mem0_oss"),
        ("/configure", BEARER, "mem0_oss"),
        ("/auth/login", BEARER, "mem0_oss"),
        ("/", API_KEY, None),
        # Under /mem0 the prefix has chosen, so the scheme need not.
        ("/mem0/v3/memories/add/", TOKEN, "mem0"),
        ("/mem0/v3/memories/add/", BEARER, "mem0"),
        ("/mem0/v3/memories/add/", NONE, "mem0"),
        ("/mem0/memories", API_KEY, "mem0_oss"),
        ("/mem0/memories", TOKEN, "mem0_oss"),
        ("/mem0/search", BEARER, "mem0_oss"),
        ("/mem0/v1/memories", TOKEN, None),
        ("/mem0", TOKEN, None),
        ("/mem0x/memories", API_KEY, None),
    ],
)
def test_every_path_has_at_most_one_owner(
    path: str, headers: dict[str, str], owner: str | None
) -> None:
    asked = HttpRequest(method="POST", path=path, headers=headers)
    owners = [dialect.name for dialect in (PLATFORM, OSS) if dialect.claims(asked)]
    assert owners == ([] if owner is None else [owner])


@pytest.mark.parametrize(
    ("headers", "platform", "oss"),
    [
        (TOKEN, "k", None),
        (BEARER, None, "k"),
        (API_KEY, None, "k"),
        (NONE, None, None),
        ({"authorization": "Token"}, None, None),
        ({"authorization": "Basic k"}, None, None),
        ({"authorization": "Bearer k", "x-api-key": "k"}, None, "k"),
        # Two keys that disagree are a credential of nobody: not None, for which the uid speaks.
        ({"authorization": "Bearer k", "x-api-key": "other"}, None, ""),
        ({"authorization": "Token k", "x-api-key": "other"}, "k", "other"),
    ],
)
def test_each_dialect_reads_its_own_credential(
    headers: dict[str, str], platform: str | None, oss: str | None
) -> None:
    asked = HttpRequest(method="GET", path="/mem0/v1/ping/", headers=headers)
    assert PLATFORM.credential(asked) == platform
    assert OSS.credential(asked) == oss
