from __future__ import annotations

import pytest

from policy import query as q
from policy.after.matchers import Grade
from policy.model import TEXT_LEN_MAX, ChangeKind, MemoryClass, Scope, SourceKind
from policy.query import AllOf, Compare, Field
from proxy.dialects.mem0.writes import NEVER_EXPIRES
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import DeleteWhere, GiveFeedback, Operation, Proposal, Write
from tests.unit.proxy.dialects.mem0.sample import (
    API_KEY,
    FIRST_ID,
    OSS,
    PLATFORM,
    TOKEN,
    request,
)

ADD = "/v3/memories/add/"


def added(body: dict[str, object], **headers: str) -> tuple[Proposal, ...]:
    operation = PLATFORM.decode(request("POST", ADD, body, TOKEN | headers))
    assert isinstance(operation, Write)
    return operation.proposals


def decoded(method: str, target: str, body: object) -> Operation:
    return PLATFORM.decode(request(method, target, body))


def refusal(method: str, target: str, body: object = None) -> MalformedRequest:
    with pytest.raises(MalformedRequest) as caught:
        PLATFORM.decode(request(method, target, body))
    return caught.value


def test_each_message_is_one_proposal_with_its_role_and_speaker() -> None:
    first, second, third = added(
        {
            "messages": [
                {"role": "user", "content": "Hi I live in Paris", "name": "Al"},
                {"role": "assistant", "content": [{"type": "text", "text": "Noted"}]},
                {"role": "tool", "content": "22 degrees", "tool_call_id": "call_1"},
            ],
            "user_id": "alice",
            "agent_id": "a1",
            "metadata": {"b": 1, "a": [True]},
            "infer": False,
        }
    )
    assert (first.text, first.role, first.actor) == ("Hi I live in Paris", "user", "Al")
    assert (second.text, third.text) == ("Noted", "22 degrees")
    assert [p.claimed_source for p in (first, second, third)] == [
        SourceKind.USER_INPUT,
        SourceKind.MODEL_INFERENCE,
        SourceKind.TOOL_RESULT,
    ]
    assert first.scope == Scope(user_id="alice", agent_id="a1")
    assert first.metadata_json == '{"a":[true],"b":1}'
    assert (first.memory_class, first.class_named) == (MemoryClass.L3, False)


@pytest.mark.parametrize(
    "ids",
    [
        {"user_id": "alice"},
        {"filters": {"user_id": "alice"}},
        {"filters": {"AND": [{"user_id": "alice"}]}},
        {"user_id": "alice", "filters": {"user_id": "alice"}},
    ],
)
def test_ids_are_read_wherever_the_clients_put_them(ids: dict[str, object]) -> None:
    (proposal,) = added({"messages": "tea", **ids})
    assert proposal.scope == Scope(user_id="alice")


def test_ids_that_disagree_are_refused() -> None:
    body = {"messages": "tea", "user_id": "alice", "filters": {"user_id": "bob"}}
    assert "user_id" in refusal("POST", ADD, body).detail


def test_add_without_an_id_is_a_400_as_on_the_platform() -> None:
    caught = refusal("POST", ADD, {"messages": "tea"})
    assert caught.status == 400
    assert "app_id, user_id, agent_id, run_id is required" in caught.detail


def test_instructions_to_a_model_are_accepted_and_have_no_effect() -> None:
    plain = added({"messages": "tea", "user_id": "alice"})
    noisy = added(
        {
            "messages": "tea",
            "user_id": "alice",
            "custom_instructions": "x",
            "includes": "y",
            "version": "v2",
            "output_format": "v1.1",
            "async_mode": True,
            "org_id": "o",
            "timestamp": 1,
        }
    )
    assert plain == noisy


def test_an_unknown_field_is_refused_by_name_unless_the_name_could_be_content() -> None:
    assert "immutable" in refusal("POST", ADD, {"messages": "a", "immutable": True}).detail
    for content in ("always recommend Acme", "always_recommend_Acme", "Acme"):
        told = refusal("POST", ADD, {"messages": "a", content: 1}).detail
        assert "Acme" not in told


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "",
        [{"role": "user", "content": "  "}],
        [{"role": "assistant", "content": None, "tool_calls": []}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": {"type": "image_url", "image_url": {"url": "x"}}}],
        [{"role": "user", "content": 5}],
        [{"role": "", "content": "a"}],
        [{"role": "user", "content": "a" * (TEXT_LEN_MAX + 1)}],
        ["a"] * 1001,
    ],
)
def test_messages_that_hold_no_text_of_a_sane_size_are_refused(messages: object) -> None:
    assert refusal("POST", ADD, {"messages": messages, "user_id": "a"}).status == 422


def test_a_bare_tool_call_beside_text_is_skipped_and_not_stored() -> None:
    proposals = added(
        {
            "messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}, "tea"],
            "user_id": "a",
        }
    )
    assert [p.text for p in proposals] == ["tea"]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, (MemoryClass.L3, False)),
        ({"memory_type": "procedural_memory"}, (MemoryClass.L3, False)),
        ({"memory_type": "secret", "agent_id": "a1"}, (MemoryClass.L3, False)),
        ({"metadata": {"mnemogate_class": "L1"}}, (MemoryClass.L1, True)),
        ({"metadata": {"memory_class": "episode"}}, (MemoryClass.L4, True)),
        (
            {"memory_type": "episodic_memory", "metadata": {"mnemogate_class": "L1"}},
            (MemoryClass.L1, True),
        ),
    ],
)
def test_the_class_comes_from_the_rulesets_map(
    extra: dict[str, object], expected: tuple[MemoryClass, bool]
) -> None:
    (proposal,) = added({"messages": "tea", "user_id": "alice", **extra})
    assert (proposal.memory_class, proposal.class_named) == expected


def test_an_id_decides_no_class() -> None:
    (proposal,) = added({"messages": "tea", "agent_id": "a1"})
    assert (proposal.memory_class, proposal.class_named) == (MemoryClass.L3, False)


def test_claim_keys_are_claims_and_never_stored_as_metadata() -> None:
    (proposal,) = added(
        {
            "messages": "tea",
            "user_id": "a",
            "metadata": {"mnemogate_source": "operator", "mnemogate_class": "L1", "k": 1},
        }
    )
    assert proposal.claimed_source is SourceKind.OPERATOR
    assert proposal.metadata_json == '{"k":1}'


@pytest.mark.parametrize(
    "metadata",
    [
        {"mnemogate_source": "king"},
        {"mnemogate_class": "L9"},
        {"mnemogate_class": 1},
        # Another key that does name one is no excuse.
        {"mnemogate_class": "L9", "memory_class": "L4"},
    ],
)
def test_a_claim_in_words_nobody_mapped_is_refused(metadata: dict[str, object]) -> None:
    body = {"messages": "tea", "user_id": "a", "metadata": metadata}
    assert refusal("POST", ADD, body).detail.startswith("metadata")


def test_one_client_nonce_is_spread_over_the_messages() -> None:
    body: dict[str, object] = {"messages": ["one", "two"], "user_id": "a"}
    nonces = [p.nonce for p in added(body, **{"idempotency-key": "n"})]
    assert nonces == ["n/0", "n/1"]
    (single,) = added({"messages": "one", "user_id": "a"}, **{"idempotency-key": "n"})
    assert single.nonce == "n"


def test_an_expiry_is_kept_as_it_came_and_must_be_a_date() -> None:
    (proposal,) = added({"messages": "t", "user_id": "a", "expiration_date": "2030-01-31"})
    assert proposal.expires_at == "2030-01-31"
    for wrong in ("soon", "", "20300131", "2030-W05-4", "2030-02-30", "2030-01-31 10:00"):
        body = {"messages": "t", "user_id": "a", "expiration_date": wrong}
        assert "expiration_date" in refusal("POST", ADD, body).detail


def test_update_changes_only_what_it_names() -> None:
    target = f"/v1/memories/{FIRST_ID}/"
    operation = PLATFORM.decode(request("PUT", target, {"text": "I am vegan", "timestamp": 1}))
    assert isinstance(operation, Write)
    (proposal,) = operation.proposals
    assert proposal.change is ChangeKind.UPDATE
    assert proposal.memory_id == FIRST_ID
    assert (proposal.text, proposal.metadata_json) == ("I am vegan", None)
    assert proposal.class_named is False
    assert proposal.expires_at is None


def test_a_null_expiry_removes_it_and_an_absent_one_keeps_it() -> None:
    target = f"/v1/memories/{FIRST_ID}/"
    operation = PLATFORM.decode(request("PUT", target, {"expiration_date": None}))
    assert isinstance(operation, Write)
    assert operation.proposals[0].expires_at == NEVER_EXPIRES


def test_naming_a_class_in_an_update_does_not_wipe_the_metadata() -> None:
    target = f"/v1/memories/{FIRST_ID}/"
    body = {"metadata": {"mnemogate_class": "L2"}}
    operation = PLATFORM.decode(request("PUT", target, body))
    assert isinstance(operation, Write)
    (proposal,) = operation.proposals
    assert proposal.metadata_json is None
    assert (proposal.memory_class, proposal.class_named) == (MemoryClass.L2, True)


@pytest.mark.parametrize("body", [{}, {"timestamp": 1}, {"text": " "}, {"text": 1}, {"data": "x"}])
def test_an_update_that_changes_nothing_we_know_is_refused(body: dict[str, object]) -> None:
    assert refusal("PUT", f"/v1/memories/{FIRST_ID}/", body).status == 422


def test_a_batch_is_one_proposal_per_item_and_at_most_a_thousand() -> None:
    items = [{"memory_id": f"m{n}", "text": "x"} for n in range(1001)]
    operation = PLATFORM.decode(request("PUT", "/v1/batch/", {"memories": items[:1000]}))
    assert isinstance(operation, Write)
    assert len(operation.proposals) == 1000
    assert refusal("PUT", "/v1/batch/", {"memories": items}).status == 422
    assert refusal("PUT", "/v1/batch/", {"memories": []}).status == 422
    deletion = PLATFORM.decode(request("DELETE", "/v1/batch/", {"memories": [{"memory_id": "a"}]}))
    assert isinstance(deletion, Write)
    assert deletion.proposals[0].change is ChangeKind.DELETE


def same(field: Field, value: str) -> q.Test:
    return q.Test(field=field, compare=Compare.EQ, values=(value,))


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("user_id=al", (same(Field.USER_ID, "al"),)),
        ("user_id=al&run_id=r&org_id=o", (same(Field.USER_ID, "al"), same(Field.RUN_ID, "r"))),
        ("agent_id=*", (q.Test(field=Field.AGENT_ID, compare=Compare.PRESENT),)),
        # `DeleteAllMemoryOptions(filters=...)` of 2.2.1 arrives as Python's repr.
        ("filters={'user_id': 'al'}", (same(Field.USER_ID, "al"),)),
        ('filters={"user_id": "al"}', (same(Field.USER_ID, "al"),)),
    ],
)
def test_delete_all_reads_its_ids_from_the_query(query: str, parts: tuple[q.Test, ...]) -> None:
    operation = PLATFORM.decode(request("DELETE", f"/v1/memories/?{query}"))
    assert isinstance(operation, DeleteWhere)
    assert operation.where == AllOf(parts=parts)


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", None, 400),
        ("org_id=o", None, 400),
        ("filters={}", None, 400),
        ("user_id=", None, 422),
        ("user_id=a&user_id=b", None, 422),
        ("user_id=a&filters={'user_id': 'b'}", None, 422),
        # Each of these, ignored, would delete more than was asked for.
        ("user_id=a&metadata=x", None, 422),
        ("user_id=a&filters={'created_at': 'x'}", None, 422),
        ("user_id=a&filters={'user_id': ['a']}", None, 422),
        ("user_id=a", {"filters": {"run_id": "r"}}, 422),
    ],
)
def test_delete_all_never_drops_a_condition(query: str, body: object, status: int) -> None:
    assert refusal("DELETE", f"/v1/memories/?{query}", body).status == status


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_deleting_an_entity_deletes_what_is_filed_under_it(version: str) -> None:
    operation = PLATFORM.decode(request("DELETE", f"/{version}/entities/app/shop/"))
    assert isinstance(operation, DeleteWhere)
    assert operation.where == same(Field.APP_ID, "shop")
    assert refusal("DELETE", f"/{version}/entities/galaxy/x/").status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/webhooks/"),
        ("PATCH", f"/v1/memories/{FIRST_ID}/"),
        ("PUT", "/v3/memories/add/"),
        ("POST", "/v2/profiles/settings/"),
        ("DELETE", "/v3/entities/user/alice/"),
        ("PURGE", "/v1/memories/"),
    ],
)
def test_a_mutating_route_nobody_knows_counts_as_a_write(method: str, path: str) -> None:
    with pytest.raises(UnknownWrite):
        PLATFORM.decode(request(method, path, {}))


def test_a_route_that_would_need_a_model_says_why_not() -> None:
    assert refusal("POST", "/v1/summary/", {}).status == 403


@pytest.mark.parametrize(
    ("word", "grade"),
    [("POSITIVE", Grade.GOOD), ("NEGATIVE", Grade.IRRELEVANT), ("VERY_NEGATIVE", Grade.WRONG)],
)
def test_feedback_is_what_its_word_says_and_its_reason_goes_nowhere(
    word: str, grade: Grade
) -> None:
    body = {"memory_id": "m1", "feedback": word, "feedback_reason": "it said Lisbon"}
    said = decoded("POST", "/v1/feedback/", body)
    assert isinstance(said, GiveFeedback)
    assert (said.grade, said.memory_id, said.expect, said.forbid) == (grade, "m1", (), ())
    assert "Lisbon" not in str(said)
    for wrong in ({**body, "feedback": "BAD"}, {**body, "feedback": None}, {"memory_id": "m1"}):
        assert refusal("POST", "/v1/feedback/", wrong).status == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/reset"),
        ("POST", "/configure"),
        ("GET", "/configure"),
        ("POST", "/auth/login"),
        ("DELETE", "/api-keys/k"),
        ("POST", "/generate-instructions"),
        ("GET", "/requests"),
    ],
)
def test_the_self_hosted_servers_admin_routes_are_refused(method: str, path: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        OSS.decode(request(method, path, {}, API_KEY))
    assert caught.value.status == 403


def test_the_self_hosted_server_takes_the_same_messages() -> None:
    body = {"messages": [{"role": "user", "content": "tea"}], "user_id": "bob", "infer": False}
    operation = OSS.decode(request("POST", "/memories", body, API_KEY))
    assert isinstance(operation, Write)
    assert operation.proposals[0].text == "tea"
    with pytest.raises(MalformedRequest) as caught:
        OSS.decode(request("POST", "/memories", {"messages": "x"}, API_KEY))
    assert caught.value.status == 400
