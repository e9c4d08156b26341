"""The `[[model]]` tables: model APIs that are served below `/<name>/`, and their upstreams."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from policy.model import Reads
from policy.places import Patterns
from policy.text.paths import BadPattern
from proxy.settings.egress import Egress
from proxy.settings.servers import Name, Principals, Text, Texts, check_url, headers_from
from proxy.settings.values import BadValue

if TYPE_CHECKING:
    from proxy.dialects.model.memory_tools import Maps

# First path segments that no `[[model]]` table may have as its name, because other fronts use them;
# a test checks the list. At a start, the segments of dialects are refused as well.
RESERVED: Final = frozenset(
    {
        *("api", "api-keys", "auth", "configure", "confirm", "entities", "generate-instructions"),
        *("guard", "healthz", "mcp", "mem0", "memories", "metrics", "readyz", "requests", "reset"),
        *("search", "store", "v1", "v2", "v3"),
    }
)


# The path of a route below the table's name; a star matches one segment.
Path: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(/([A-Za-z0-9_.:@,=$~-]+|\*))+$",
        max_length=512,
        title="a path like /v1beta/models/*",
    ),
]


class Api(enum.Enum):
    """The API's kind: the form of its errors, and the routes that ask a model."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GEMINI = "gemini"


class ClientVariables(NamedTuple):
    """The environment variables by which clients of an API are pointed here.

    `base` takes the URL, which ends with `end`; `key` takes a key, `headers` further headers.
    """

    base: str
    key: str
    headers: str
    end: str = ""


CLIENTS: Final = {
    Api.ANTHROPIC: ClientVariables(
        "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS"
    ),
    Api.GEMINI: ClientVariables(
        "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GEMINI_CLI_CUSTOM_HEADERS"
    ),
    # Its clients read no variable for further headers.
    Api.OPENAI: ClientVariables("OPENAI_BASE_URL", "OPENAI_API_KEY", "", "/v1"),
}


class ModelPurpose(enum.Enum):
    """Whether an agent or a memory backend asks the model."""

    AGENT = "agent"  # An agent asks; its calls of memory tools are judged.
    EXTRACTION = "extraction"  # A memory backend asks; the answer itself is stored.


class ModelUpstream(Egress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[model]]` table. `url` has no slash at its end."""

    KIND: ClassVar = "model"

    name: Annotated[
        Name,
        Meta(description="The API is served below `/<name>/`; no other front's first segment."),
    ]
    api: Annotated[
        Api,
        Meta(
            description="`anthropic`, `openai` or `gemini`: how errors look, and which routes a "
            "model answers at."
        ),
    ]
    url: Annotated[
        Text,
        Meta(description="What stands for `/<name>`: this one place, whatever an agent says."),
    ]
    headers_file: Annotated[
        Text | None,
        Meta(
            description="File with `Name: value` lines, closed to others: the credential that only "
            "the sidecar has. An agent that sends its key as `Mnemogate-Key` keeps its own."
        ),
    ] = None
    principals: Annotated[
        Principals | None, Meta(description="Ids of the principals that may use it; unset: all.")
    ] = None
    passing: Annotated[
        tuple[Path, ...],
        Meta(
            max_length=64,
            description="Paths of routes that are no turns and that this program does not know "
            '(`["/v2/chat", "/v1beta/models/*"]`, a star for one segment): they are sent on, and '
            "nobody judges the calls that they bring. Unset: they are refused.",
        ),
    ] = ()
    purpose: Annotated[
        ModelPurpose,
        Meta(
            description="`agent`, or `extraction`: a memory backend asks its own model here, and "
            "what that answers is gated before the backend sees it."
        ),
    ] = ModelPurpose.AGENT
    reads: Annotated[
        Reads,
        Meta(
            description="`all`, `user_input` or `operator`: the floor for reads. What a memory "
            "front served to the same principal below it leaves requests; the stricter of key and "
            "table counts."
        ),
    ] = Reads.ALL
    maps: Annotated[
        Texts | None,
        Meta(
            description="Tool maps, shipped ones by name or files: which tools write memory. "
            "Unset: all that are shipped. For `extraction` one, with the form of the answers."
        ),
    ] = None
    instruction_paths: Annotated[
        Patterns,
        Meta(
            description="Places that your hosts put into prompts as rules, beside the shipped "
            "ones: a name in any folder, a path, `*` in a name, `**` for any names, `block:NAME`. "
            "What nothing proves waits there for a person."
        ),
    ] = ()
    fact_paths: Annotated[
        Patterns,
        Meta(
            description="Places of notes, beside the shipped ones. Of two patterns the one that "
            "names more steps counts; of equal ones, instructions."
        ),
    ] = ()
    reads_foreign: Annotated[
        bool,
        Meta(
            description="`true` where user turns contain others' texts (mail bots, retrieval "
            "chains): each of its sessions counts as having read foreign text."
        ),
    ] = False
    answer_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3_600,
            description="Seconds to the beginning of an answer, and between two pieces of it.",
        ),
    ] = 600.0
    request_bytes_max: Annotated[
        int,
        Meta(
            ge=1_024,
            le=128 * 1024**2,
            description="Largest request body in bytes, once decompressed.",
        ),
    ] = 32 * 1024**2

    def __post_init__(self) -> None:
        """Refuse a name that is taken, a URL that names no single server, and unfit files."""
        if self.name in RESERVED:
            raise BadValue("name: another front is served below that path")
        check_url(self.url, has_credential=bool(self.headers))
        force_setattr(self, "url", self.url.rstrip("/"))
        super().__post_init__()
        found = self.tool_maps.maps
        answers = [one for one in found if one.model.outputs or one.model.text]
        one_map = self.maps is not None and len(found) == 1 and answers
        if self.purpose is ModelPurpose.EXTRACTION and not one_map:
            raise BadValue("maps: for extraction one map that says what the model answers")

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers in `headers_file`, which every forwarded request gets."""
        return headers_from(self.headers_file)

    @cached_property
    def tool_maps(self) -> Maps:
        """The tool maps by which a model's calls of memory tools are recognised.

        Raises:
            BadValue: A pattern of `instruction_paths` or `fact_paths` is invalid.
        """
        # The import is local, because it loads the dialects, which most commands do not need.
        from proxy.settings.tool_maps import maps_of_models  # noqa: PLC0415

        try:
            found = maps_of_models(self.maps, self.instruction_paths, self.fact_paths)
            _ = [one.all_places for one in found.files]
        except BadPattern as error:
            raise BadValue(f"instruction_paths, fact_paths: {error}") from None
        return found


def base_of(model: ModelUpstream) -> str:
    """The environment variable of a client's base URL, with the end that the URL must have."""
    of = CLIENTS[model.api]
    return f"{of.base}=.../{model.name}{of.end}"


def maps_of_agents(models: tuple[ModelUpstream, ...]) -> Maps:
    """The tool maps of all tables whose models agents ask, together, with the places of all.

    Without such a table they are the shipped ones.
    """
    from proxy.settings.tool_maps import maps_of_models  # noqa: PLC0415 - as in `tool_maps`

    agents = [one for one in models if one.purpose is ModelPurpose.AGENT]
    instructions = tuple(path for one in agents for path in one.instruction_paths)
    facts = tuple(path for one in agents for path in one.fact_paths)
    chosen = dict.fromkeys(one.maps for one in agents) or {None: None}
    each = [maps_of_models(names, instructions, facts) for names in chosen]
    return replace(
        each[0],
        maps=tuple({one.name: one for found in each for one in found.maps}.values()),
        named=all(found.named for found in each),
        files=tuple({one.name: one for found in each for one in found.files}.values()),
        answers=(),
    )
