"""Routes of the operator API for anchors, canaries, failures and judges."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import Tenant
from proxy.admin.commands import Operate
from proxy.admin.wire import registered as wire
from proxy.admin.wire.ids import SESSION_ID_LEN, IdKind
from proxy.admin.wire.judging import JudgeTestView
from proxy.admin.wire.queries import RecallsQuery, TenantQuery
from proxy.admin.wire.recalled import RecallList, RecallView, ReplyView
from proxy.admin.wire.said import FailureList, FailureRequest, FailureView
from proxy.admin.wire.store import Empty
from proxy.dialects.query import NoQuery
from proxy.fronts.operator_call import OperatorCall


async def _anchors(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The anchors of a tenant."""
    return operate.registering.anchors(call.tenant())


async def _anchor_put(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Register a statement that memories are compared with."""
    return await operate.registering.put_anchor(call.by, call.body(wire.AnchorRequest))


async def _canaries(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The canaries of a tenant."""
    return await operate.registering.canaries(call.tenant())


async def _canary_put(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Register a question, and what memories may not answer to it."""
    return await operate.registering.put_canary(call.by, call.body(wire.CanaryRequest))


async def _canaries_run(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Ask retrieval the questions of a tenant's canaries."""
    return await operate.registering.run_canaries(call.by, call.body(wire.CanaryRunRequest))


async def _failures(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The newest failures of a tenant: signals that an answer was wrong, claims of agents too."""
    return await operate.failing.all(call.tenant())


async def _failure(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """One report that an answer was wrong."""
    return await operate.failing.one(call.argument)


async def _failure_file(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Report that an answer was wrong."""
    return await operate.failing.file(call.by, call.body(FailureRequest))


async def _recalls(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Which memories reads showed to whom, newest first."""
    asked = call.query(RecallsQuery)
    tenant = Tenant(asked.tenant)
    if asked.memory_id is not None:
        whole = await operate.whole_id(IdKind.MEMORY, asked.memory_id, tenant)
        asked = msgspec.structs.replace(asked, memory_id=whole)
    # The ledger of sessions may have lost one that the recall ledger still names.
    if asked.session is not None and len(asked.session) < SESSION_ID_LEN:
        whole = await operate.whole_id(IdKind.SESSION, asked.session, tenant)
        asked = msgspec.structs.replace(asked, session=whole)
    return await operate.recalled.all(asked)


async def _recall(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """One read, and the memories that it showed."""
    return await operate.recalled.one(call.argument)


async def _reply(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The memories that stood in the request behind a reply of a model."""
    return await operate.recalled.reply(call.tenant(), call.argument)


async def _judge_test(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Ask a caller's judge the same question about one set of memories twice."""
    call.body(Empty)
    return await operate.judge_tests.test(call.argument)


RULES: Final = (
    ("GET", "/anchors", _anchors, TenantQuery, None, wire.AnchorList),
    ("POST", "/anchors", _anchor_put, NoQuery, wire.AnchorRequest, wire.AnchorView),
    ("GET", "/canaries", _canaries, TenantQuery, None, wire.CanaryList),
    ("POST", "/canaries", _canary_put, NoQuery, wire.CanaryRequest, wire.CanaryView),
    ("POST", "/canaries/run", _canaries_run, NoQuery, wire.CanaryRunRequest, wire.CanaryRunView),
    ("GET", "/failures", _failures, TenantQuery, None, FailureList),
    ("GET", "/failures/{failure_id}", _failure, NoQuery, None, FailureView),
    ("GET", "/recalls", _recalls, RecallsQuery, None, RecallList),
    ("GET", "/recalls/{recall_id}", _recall, NoQuery, None, RecallView),
    ("GET", "/replies/{reply_id}", _reply, TenantQuery, None, ReplyView),
    ("POST", "/judges/{judge}/test", _judge_test, NoQuery, Empty, JudgeTestView),
    ("POST", "/failures", _failure_file, NoQuery, FailureRequest, FailureView),
)
