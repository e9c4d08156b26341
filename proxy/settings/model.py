"""The `[[model]]` tables: model APIs that are served below `/<name>/`, and their upstreams."""

from __future__ import annotations

import enum
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from policy.model import Reads
from policy.places import Patterns
from policy.text.paths import BadPattern
from proxy.dialects.mcp.maps import MapError
from proxy.dialects.model.memory_tools import Maps
from proxy.settings.servers import NAME_PATTERN, Text, check_url, headers_from
from proxy.settings.tool_maps import maps_of_models
from proxy.settings.values import BadValue, table_of

# First path segments that a table may not take, because other fronts of the data listener use them;
# a test checks them. A start also refuses those of dialects.
RESERVED: Final = frozenset(
    {
        *("api", "api-keys", "auth", "configure", "confirm", "entities", "generate-instructions"),
        *("guard", "healthz", "mcp", "mem0", "memories", "metrics", "readyz", "requests", "reset"),
        *("search", "store", "v1", "v2", "v3"),
    }
)


# Matches a route below the table's name; a star stands for one segment.
Path: TypeAlias = Annotated[str, Meta(pattern=r"^(/([A-Za-z0-9_.:@,=$~-]+|\*))+$", max_length=512)]


class Api(enum.Enum):
    """The API's kind: the form of its errors, and the routes that ask a model."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"


class ModelPurpose(enum.Enum):
    """Whether an agent or a memory backend asks the model."""

    AGENT = "agent"  # An agent asks; its calls of memory tools are judged.
    EXTRACTION = "extraction"  # A memory backend asks; the answer itself is stored.


class ModelTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[model]]` table, as it stands in the file."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    api: Api
    url: Text
    headers_file: Text | None = None
    principals: Annotated[frozenset[Text], Meta(min_length=1, max_length=256)] | None = None
    passing: Annotated[tuple[Path, ...], Meta(max_length=64)] = ()
    purpose: ModelPurpose = ModelPurpose.AGENT
    reads: Reads = Reads.ALL
    maps: Annotated[tuple[Text, ...], Meta(max_length=64)] | None = None
    instruction_paths: Patterns = ()
    fact_paths: Patterns = ()
    reads_foreign: bool = False
    answer_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 600.0
    total_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 3_600.0
    request_bytes_max: Annotated[int, Meta(ge=1_024, le=128 * 1024**2)] = 32 * 1024**2
    reply_bytes_max: Annotated[int, Meta(ge=1_024, le=512 * 1024**2)] = 64 * 1024**2


MEANINGS: Final[dict[str, str]] = {
    "name": "The API is served below `/<name>/`; no other front's first segment.",
    "api": "`anthropic` or `openai`: how errors look, and which routes a model answers at.",
    "url": "What stands for `/<name>`: this one place, whatever an agent says.",
    "headers_file": "File with `Name: value` lines, closed to others: the credential that only the "
    "sidecar has. An agent that sends its key as `Mnemogate-Key` keeps its own.",
    "principals": "Ids of the principals that may use it; unset: all.",
    "passing": "Paths of routes that are no turns and that this program does not know "
    '(`["/v2/chat", "/v1beta/models/*"]`, a star for one segment): they are sent on, and nobody '
    "judges the calls that they bring. Unset: they are refused.",
    "purpose": "`agent`, or `extraction`: a memory backend asks its own model here, and what that "
    "answers is gated before the backend sees it.",
    "reads": "`all`, `user_input` or `operator`: the floor for reads. What a memory front served "
    "to the same principal below it leaves requests; the stricter of key and table counts.",
    "maps": "Tool maps, shipped ones by name or files: which tools write memory. Unset: all that "
    "are shipped. For `extraction` one, with the form of the answers.",
    "instruction_paths": "Places that your hosts put into prompts as rules, beside the shipped "
    "ones: a name in any folder, a path, `*` in a name, `**` for any names, `block:NAME`. What "
    "nothing proves waits there for a person.",
    "fact_paths": "Places of notes, beside the shipped ones. Of two patterns the one that names "
    "more steps counts; of equal ones, instructions.",
    "reads_foreign": "`true` where user turns contain others' texts (mail bots, retrieval "
    "chains): each of its sessions counts as having read foreign text.",
    "answer_seconds": "Seconds to the beginning of an answer, and between two pieces of it.",
    "total_seconds": "Seconds for a whole answer, every second asking of the model included.",
    "request_bytes_max": "Largest request body in bytes.",
    "reply_bytes_max": "Largest answer in bytes, before and after it is opened.",
}


class ModelUpstream(ModelTable, frozen=True, kw_only=True):
    """One model API, checked. `url` has no slash at its end."""

    headers: tuple[tuple[str, str], ...]
    tool_maps: Maps


def base_of(model: ModelUpstream) -> str:
    """The variable from which clients take their base URL, and what that URL has to end in."""
    if model.api is Api.ANTHROPIC:
        return f"ANTHROPIC_BASE_URL=.../{model.name}"
    return f"OPENAI_BASE_URL=.../{model.name}/v1"


def model_upstreams(tables: list[object]) -> tuple[ModelUpstream, ...]:
    """The model APIs of these tables.

    Raises:
        BadValue: The message names the table and the error, and no secret.
    """
    found: list[ModelUpstream] = []
    for position, table in enumerate(tables, 1):
        try:
            found.append(_upstream(table_of(table, ModelTable)))
        except (BadValue, MapError) as error:
            raise BadValue(f"model, table {position}: {error}") from None
    names = [one.name for one in found]
    if len(set(names)) != len(names):
        raise BadValue("model: two tables have the same name")
    return tuple(found)


def _upstream(given: ModelTable) -> ModelUpstream:
    if given.name in RESERVED:
        raise BadValue("name: another front is served below that path")
    headers = headers_from(given.headers_file)
    check_url(given.url, has_credential=bool(headers))
    found = ModelUpstream(**asdict(given), headers=headers, tool_maps=_maps(given))
    return msgspec.structs.replace(found, url=given.url.rstrip("/"))


def _maps(given: ModelTable) -> Maps:
    try:
        found = maps_of_models(given.maps, given.instruction_paths, given.fact_paths)
        _ = [one.all_places for one in found.files]
    except BadPattern as error:
        raise BadValue(f"instruction_paths, fact_paths: {error}") from None
    if given.purpose is ModelPurpose.AGENT:
        return found
    answers = [one for one in found.maps if one.model.outputs or one.model.text]
    if given.maps is None or len(found.maps) != 1 or not answers:
        raise BadValue("maps: for extraction one map that says what the model answers")
    return found
