"""Requests and answers of the operator API about isolation, rewind and wrong answers."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import OperatorScope
from proxy.admin.wire.route import Empty, NoQuery, TenantQuery, Wide, get, post
from proxy.admin.wire.views import Moment, SelectionRequest
from proxy.seams.cases import SaidText
from storage.features.cases import Case, CaseMemory
from storage.features.incidents import Incident, IsolationReport, RewindReport
from storage.values import QUARANTINE_REASON_LEN_MAX

CAUGHT_NAMED_MAX = 1_000


class _ReachRequest(SelectionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""


class IsolateRequest(_ReachRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hide every memory that has a step which fits all given fields; at least one must be given."""

    with_descendants: bool = False


class RewindRequest(_ReachRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put memories into the state of a version or of a time; exactly one of the two is given."""

    to_version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    to_ms: Moment | None = None


class IncidentList(msgspec.Struct, frozen=True, kw_only=True):
    """Isolations and rewinds, and the incidents of wrong answers, each oldest first."""

    incidents: tuple[Incident, ...]
    wrong_answers: tuple[Case, ...] = ()


ISOLATE: Final = post(
    "/isolate",
    IsolateRequest,
    IsolationReport,
    "Hide all memories that came from one place; `dry_run` only names them.",
    slow=True,
)
REWIND: Final = post(
    "/rewind",
    RewindRequest,
    RewindReport,
    "Put memories into an earlier state, by new commits; `dry_run` only counts them.",
    slow=True,
)
INCIDENTS: Final = get(
    "/incidents",
    NoQuery,
    IncidentList,
    "Isolations and rewinds, and the incidents of wrong answers, oldest first.",
    slow=True,
    least=OperatorScope.VIEW,
)
UNDO: Final = post(
    "/incidents/{incident_id}/undo",
    Empty,
    IsolationReport,
    "Undo an isolation or a rewind; what is hidden for another reason as well stays hidden.",
    slow=True,
)
RESUME: Final = post(
    "/incidents/{incident_id}/resume",
    Empty,
    IsolationReport,
    "Finish an isolation or a rewind that was cut short.",
    slow=True,
)


SAID_MAX = 16
_Said = Annotated[tuple[SaidText, ...], Meta(max_length=SAID_MAX)]


class AnswerRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request about one wrong answer. Exactly one of the three ids is given.

    `expect` are statements that are true, `forbid` words that must not be said.
    """

    reply_id: Wide | None = None
    recall_id: Wide | None = None
    memory_id: Wide | None = None
    expect: _Said = ()
    forbid: _Said = ()


class BlameRequest(AnswerRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request to search for the memories that caused a wrong answer.

    With `judge` a configured judge is asked instead. With `through` the model is asked again, and
    judged by the words of its replies.
    """

    judge: Annotated[str, Meta(max_length=64)] | None = None
    through: Annotated[str, Meta(max_length=64)] | None = None
    whole_cause: bool = False
    dry_run: bool = False


class BlameView(msgspec.Struct, frozen=True, kw_only=True):
    """The incident of a wrong answer.

    For a dry run, the result of one round and what would follow.
    """

    incident: Case | None
    ending: str
    why: str
    suspects: int
    asks: int
    controls: dict[str, bool]
    named: tuple[CaseMemory, ...]


BLAME: Final = post(
    "/blame",
    BlameRequest,
    BlameView,
    "Search for the memories that caused a wrong answer; `dry_run` only names them.",
    slow=True,
)
INCIDENT: Final = get(
    "/incidents/{incident_id}",
    NoQuery,
    Case,
    "Answer with the incident of one wrong answer.",
    least=OperatorScope.VIEW,
)
CLOSE: Final = post(
    "/incidents/{incident_id}/close",
    Empty,
    Case,
    "Say that a person has dealt with a wrong answer.",
)
ACCEPT: Final = post(
    "/incidents/{incident_id}/accept",
    Empty,
    Case,
    "Hide the memories that an incident left to a person, and close it.",
)
