"""Faults at the edge: what is let in, whose it is taken to be, and what is answered."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_INTAKE: Final = "proxy/transport/head.py"
_NATIVE: Final = "proxy/dialects/native/decode.py"
_FRAMING: Final = (
    at("tests/integration/test_http_malformed.py", "test_ambiguous_framing_is_refused_or_closed"),
)
_STRICT: Final = (
    at(
        "tests/unit/proxy/dialects/strict_json/test_strict.py",
        "test_what_two_readers_could_read_differently_is_refused",
    ),
)
_AUTH: Final = "tests/unit/proxy/transport/test_auth.py"

PROXY: Final = (
    Mutant(
        name="a search is served and nobody hears of it",
        file="proxy/intercept/operations.py",
        old="self._recalls.served(principal, answered, dialect=dialect)",
        new='""',
        invariant="whoever keeps account of recalls hears of every read",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_operations.py",
                "test_each_read_is_heard_before_it_is_served_and_nothing_else_is",
            ),
        ),
    ),
    Mutant(
        name="any Host is served",
        file=_INTAKE,
        old="if found is None or found[1].lower() not in self.hosts:",
        new="if found is None:",
        invariant="a request is addressed to a name of this service (DNS rebinding)",
        tests=("tests/unit/proxy/transport/test_head.py",),
    ),
    Mutant(
        name="any page may send requests",
        file=_INTAKE,
        old="if origin is not None and origin.lower() not in self.origins:",
        new="if origin is None:",
        invariant="a page in the user's browser cannot write",
        tests=("tests/unit/proxy/transport/test_head.py",),
    ),
    Mutant(
        name="a header may be sent twice",
        file=_INTAKE,
        old="        elif key in _SINGLE:\n",
        new="        elif not key:\n",
        invariant="no header can say one thing first and another last",
        tests=_FRAMING,
    ),
    Mutant(
        name="an encoded separator is a separator",
        file=_INTAKE,
        old='    if "%2f" in lowered or "%5c" in lowered or "\\\\" in raw_path:\n',
        new='    if "\\\\" in raw_path:\n',
        invariant="a path has one reading",
        tests=_FRAMING,
    ),
    Mutant(
        name="a duplicate key is accepted",
        file="proxy/dialects/strict_json/strict.py",
        old="    if len(found) != len(pairs):\n",
        new="    if len(found) > len(pairs):\n",
        invariant="a label cannot read L4 here and L1 there",
        tests=_STRICT,
    ),
    Mutant(
        name="NaN is a number",
        file="proxy/dialects/strict_json/strict.py",
        old='    raise MalformedRequest("body: NaN and Infinity are not JSON")\n',
        new="    return 0.0\n",
        invariant="what is not JSON is not read",
        tests=_STRICT,
    ),
    Mutant(
        name="the tenant comes from the body",
        file="proxy/intercept/interceptor.py",
        old="            tenant=principal.tenant,\n            nonce=nonce,",
        new="            tenant=Tenant(proposal.scope.user_id or principal.tenant),\n"
        "            nonce=nonce,",
        more=(
            (
                "from policy.model import Candidate, CandidateId, ChangeKind, MemoryId, meet\n",
                (
                    "from policy.model import Candidate, CandidateId, ChangeKind, MemoryId\n"
                    "from policy.model import Tenant, meet\n"
                ),
            ),
        ),
        invariant="a tenant comes from the credential and from nowhere else",
        tests=(at("tests/integration/test_write_path.py", "test_ids_never_cross_tenants"),),
    ),
    Mutant(
        name="a refusal says what it refuses",
        file="proxy/intercept/interceptor.py",
        old="            way=way_of(candidate.target),\n        ),\n",
        new="            way=way_of(candidate.target),\n        )\n"
        '        + (candidate.text or ""),\n',
        invariant="an answer carries nothing of a refused candidate",
        tests=(
            at(
                "tests/conformance/test_bypass_shapes_reads.py",
                "test_nothing_that_leaves_the_process_carries_a_refused_candidate",
            ),
        ),
    ),
    Mutant(
        name="a mutating route that nobody knows is just not found",
        file="proxy/fronts/memory.py",
        old='    raise UnknownWrite(f"; {hint}")',
        new="    raise NotFound(hint)",
        invariant="an unknown mutating route counts as a write and is refused",
        tests=(
            at(
                "tests/integration/test_http_front.py",
                "test_mutating_route_that_nobody_knows_counts_as_a_write",
            ),
        ),
    ),
    Mutant(
        name="an unknown native write is a read that failed",
        file=_NATIVE,
        old="    if method in _READS:\n",
        new="    if method:\n",
        invariant="an unknown mutating route counts as a write and is refused",
        tests=(
            at(
                "tests/unit/proxy/dialects/native/test_decode.py",
                "test_unknown_mutating_route_is_a_write_nobody_knows",
            ),
        ),
    ),
    Mutant(
        name="a document that leaves out what stands in the path of a route",
        file="proxy/dialects/openapi.py",
        old="            for name in _ARGUMENT.findall(route.template)\n",
        new="            for name in ()\n",
        invariant="each route, parameter and answer of an API is what its document says",
        tests=(
            at(
                "tests/integration/test_openapi.py",
                "test_the_native_api_is_what_its_document_says",
            ),
        ),
    ),
    Mutant(
        name="a parameter that no document names is passed over",
        file="proxy/dialects/query.py",
        old="        if name not in numbers:\n            raise",
        new="        if name not in numbers:\n            continue\n            raise",
        invariant="a query has the parameters that its route's document names, and no others",
        tests=(
            at(
                "tests/unit/proxy/dialects/test_query.py",
                "test_a_parameter_that_is_not_known_or_given_twice_is_refused",
            ),
        ),
    ),
    Mutant(
        name="a batch shares one nonce",
        file=_NATIVE,
        old='nonce = change.nonce if key is None else f"{key}/{index}"',
        new="nonce = change.nonce if key is None else key",
        invariant="each operation of a batch has a nonce of its own",
        tests=(
            at(
                "tests/unit/proxy/dialects/native/test_decode.py",
                "test_batch_gives_each_operation_its_own_nonce",
            ),
        ),
    ),
    Mutant(
        name="a second nonce is ignored",
        file=_NATIVE,
        old="    if in_body is not None:\n",
        new="    if in_body == in_header:\n",
        invariant="a nonce is given once",
        tests=(
            at(
                "tests/unit/proxy/dialects/native/test_decode.py",
                "test_nonce_comes_from_header_or_body_and_never_both",
            ),
        ),
    ),
    Mutant(
        name="a wrong key is rescued by the uid",
        file="proxy/transport/auth.py",
        old="if record is None:\n                return None\n            return _let_in(",
        new="if record is not None:\n                return _let_in(",
        invariant="a credential that is sent must be right",
        tests=(
            _AUTH,
            at("tests/integration/test_http_peers.py", "test_wrong_key_is_not_rescued_by_the_uid"),
        ),
    ),
    Mutant(
        name="a revoked key lives",
        file="proxy/transport/auth.py",
        old="record.revoked_at_ms is not None and record.revoked_at_ms <= self._now_ms()",
        new="record.revoked_at_ms is not None and record.revoked_at_ms < 0",
        invariant="a revoked key is nobody from that moment on",
        tests=(at(_AUTH, "test_revoked_key_is_nobody_from_that_moment_on"),),
    ),
    Mutant(
        name="a key is stored as it is",
        file="proxy/transport/auth.py",
        old='return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()',
        new='return plain.encode("utf-8", "surrogatepass")',
        invariant="only hashes of keys are stored",
        tests=(_AUTH,),
    ),
    Mutant(
        name="anybody is an operator",
        file="proxy/transport/auth.py",
        old="    if principal.channel is not Channel.OPERATOR:\n",
        new="    if not principal.channel:\n",
        invariant="operator routes are for operators",
        tests=(at(_AUTH, "test_operator_is_who_is_bound_as_one"),),
    ),
    Mutant(
        name="an internal failure tells its text",
        file="proxy/transport/responses.py",
        old='return refuse(500, "cannot_decide: an internal failure; nothing was admitted")',
        new='return refuse(500, f"cannot_decide: {error}")',
        invariant="an error message echoes no content",
        tests=("tests/unit/proxy/transport/test_responses.py",),
    ),
    Mutant(
        name="an add that waits for a person ends its application",
        file="proxy/dialects/mem0/platform.py",
        old="waiting(items) if note.route in _ADDS else None",
        new="waiting(()) if note.route in _ADDS else None",
        invariant="a hold is no exception in an application of Mem0's platform",
        tests=(
            at(
                "tests/unit/proxy/dialects/mem0/test_answers.py",
                "test_an_add_that_waits_for_a_person_is_no_exception_and_nothing_stored",
            ),
        ),
    ),
    Mutant(
        name="a deletion that waits is told as one that was done",
        file="proxy/dialects/mem0/platform.py",
        old='frozenset({"add.v3", "add.v1"})',
        new="_WRITTEN",
        invariant="only an add that waits is answered as one that is not done",
        tests=(
            at(
                "tests/unit/proxy/dialects/mem0/test_answers.py",
                "test_both_kinds_of_add_wait_alike_and_neither_change_does",
            ),
        ),
    ),
)
