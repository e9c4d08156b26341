"""Faults in who is asking, whose a memory is, and what a listener takes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced

_AUTH: Final = "tests/unit/proxy/transport/test_auth.py"
_CROWD: Final = "tests/unit/proxy/transport/test_connection.py"
_DERIVE: Final = "tests/unit/policy/labels/test_derive.py"
_HEAD: Final = "tests/unit/proxy/transport/test_heads.py"
_HTTP_MALFORMED: Final = "tests/integration/test_http_malformed.py"
_PLACES: Final = "tests/unit/proxy/settings/test_places.py"
_STORE_KEY: Final = "tests/unit/storage/test_store_key.py"

IDENTITY: Final = (
    Mutant(
        row="claims",
        name="a claim is believed without an operator's word",
        invariant="what a client says of its source is a claim",
        where="policy.labels.derive:_of_channel",
        fault=replaced(
            "candidate.claimed_source if principal.claims is Claims.TRUSTED else None",
            "candidate.claimed_source",
        ),
        tests=one_test(_DERIVE, "test_a_label_is_what_the_channel_is_worth"),
    ),
    Mutant(
        row="claims",
        name="a claim climbs above its channel",
        invariant="a vouched claim cannot climb above a channel that is bound lower",
        where="policy.labels.derive:_of_channel",
        fault=replaced("claimed if bound is None else meet(bound, claimed)", "claimed"),
        tests=one_test(_DERIVE, "test_a_label_is_what_the_channel_is_worth"),
    ),
    Mutant(
        row="tenants",
        name="ids of all tenants are one",
        invariant="the same id in another tenant is another memory",
        where="storage.tables.keys:KeyedNames.memory",
        fault=replaced(
            "self._name(b'memory', tenant, memory_id)",
            "self._name(b'memory', memory_id)",
        ),
        tests=(
            at(
                "tests/unit/storage/write/test_writes.py",
                "test_the_same_id_in_another_tenant_is_another_memory",
            ),
            at(
                "tests/integration/test_http_standing.py",
                "test_a_memory_of_another_tenant_is_as_one_that_never_was",
            ),
        ),
    ),
    Mutant(
        row="files",
        name="a file below another user's directory is taken",
        invariant="nobody else can exchange what an operator names",
        where="storage.ground.trusted_files:refuse_replaceable",
        fault=dropped("_refuse_owner(entry, found)"),
        tests=(
            at(
                "tests/unit/storage/ground/test_trusted_files.py",
                "test_a_file_below_another_users_directory_is_refused",
            ),
            at(_PLACES, "test_a_state_below_another_users_directory_is_refused"),
        ),
    ),
    Mutant(
        row="rules",
        name="a pipe in place of a ruleset is taken",
        invariant="no file that is configured stops a start or a reload for good",
        where="storage.ground.trusted_files:_refuse_unfit",
        fault=dropped("raise UnfitFile(f'a regular file, and {path} is none')"),
        tests=one_test(_PLACES, "test_a_ruleset_that_became_a_pipe_stops_no_reload"),
    ),
    Mutant(
        row="store-key",
        name="any store key opens a store",
        invariant="no other key voids the nonces that were spent",
        where="storage.tables.codec:Digests.unframe",
        fault=replaced("value[1:_PAYLOAD_AT] == digest[:DIGEST_LEN]", "digest"),
        tests=one_test(
            _STORE_KEY, "test_a_store_opens_with_no_other_store_key_and_an_auditor_is_told"
        ),
    ),
    Mutant(
        row="counting",
        name="a relay is told the store's own numbers",
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        where="proxy.intercept.operations:Operations.perform",
        fault=replaced("principal.channel is Channel.OPERATOR", "principal.channel"),
        tests=(
            at(
                "tests/integration/test_neighbours.py",
                "test_a_relay_is_told_the_same_however_much_its_neighbour_writes",
            ),
            at(
                "tests/unit/proxy/intercept/test_operations.py",
                "test_only_an_operator_is_told_where_a_change_stands_in_the_store",
            ),
        ),
    ),
    Mutant(
        row="keys",
        name="a key is stored as it is",
        invariant="only hashes of keys are stored",
        where="proxy.transport.auth:hash_key",
        fault=replaced(
            "hashlib.sha256(plain.encode('utf-8', 'surrogatepass')).digest()",
            "plain.encode('utf-8', 'surrogatepass')",
        ),
        tests=(_AUTH,),
    ),
    Mutant(
        row="keys",
        name="anybody is an operator",
        invariant="operator routes are for operators",
        where="proxy.transport.auth:operator_of",
        fault=replaced("principal.channel is not Channel.OPERATOR", "not principal.channel"),
        tests=one_test(_AUTH, "test_operator_is_who_is_bound_as_one"),
    ),
    Mutant(
        row="revoked",
        name="a revoked key lives",
        invariant="a revoked key is nobody from that moment on",
        where="proxy.transport.auth:Authenticator._record_of",
        fault=replaced("record.revoked_at_ms <= self._now_ms()", "record.revoked_at_ms < 0"),
        tests=one_test(_AUTH, "test_revoked_key_is_nobody_from_that_moment_on"),
    ),
    Mutant(
        row="revoked",
        name="a write that waits is committed although its key ended",
        invariant="a key is looked at again in the transaction that would commit",
        where="storage.write.engine:Engine._judge_one",
        fault=replaced("welcome is not None and (not welcome())", "welcome is None"),
        tests=one_test(
            "tests/integration/test_credentials_end.py",
            "test_what_was_decided_before_a_key_ended_stands_and_what_waits_is_refused",
        ),
    ),
    Mutant(
        row="browser",
        name="any Host is served",
        invariant="a request is addressed to a name of this service (DNS rebinding)",
        where="proxy.transport.head:HostRules.check",
        fault=replaced("_name_in(headers.get('host', '')) not in self.hosts", "False"),
        tests=(_HEAD,),
    ),
    Mutant(
        row="browser",
        name="any page may send requests",
        invariant="a page in the user's browser cannot write",
        where="proxy.transport.head:HostRules.check",
        fault=replaced(
            "origin is not None and origin.lower() not in self.origins", "origin is None"
        ),
        tests=(_HEAD,),
    ),
    Mutant(
        row="smuggling",
        name="a header may be sent twice",
        invariant="no header can say one thing first and another last",
        where="proxy.transport.head:_headers",
        fault=replaced("key in _SINGLE", "not key"),
        tests=one_test(
            "tests/integration/test_http_smuggling.py",
            "test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_run",
        ),
    ),
    Mutant(
        row="slow-clients",
        name="a head has no bound",
        invariant="nobody without a credential makes us hold much",
        where="proxy.transport.connection:Connection._feed_head",
        fault=replaced("self._raw > HEAD_BYTES_MAX", "False"),
        tests=one_test(
            "tests/unit/proxy/transport/test_connection.py",
            "test_a_head_is_refused_above_its_bound_and_not_at_it",
        ),
    ),
    Mutant(
        row="slow-clients",
        name="nobody makes room",
        invariant="a connection without a credential stands in nobody's way",
        where="proxy.transport.crowd:Crowd.enter",
        fault=replaced("_first(self._strangers, lambda one: one.waits)", "None"),
        tests=(
            at(_CROWD, "test_the_oldest_stranger_of_the_peer_with_most_of_them_goes_first"),
            at(_CROWD, "test_strangers_never_take_the_place_of_who_has_shown_a_credential"),
        ),
    ),
    Mutant(
        row="half-closed",
        name="the rest of a request is awaited of who says no more",
        invariant="nobody waits for a peer that says no more",
        where="proxy.transport.connection:Connection._hear_out",
        fault=replaced("self._at is not _At.HELD and (not self.broken)", "False"),
        tests=one_test(
            "tests/integration/test_http_half_closed.py",
            "test_what_is_not_whole_is_not_done_and_nobody_waits_for_it",
        ),
    ),
    Mutant(
        row="framing",
        name="chunks are read on any version",
        invariant="no reader finds another end of a request than ours",
        where="proxy.transport.request:ReceivedRequest.__init__",
        fault=replaced("message.version == _HTTP_11", "bool(message.version)"),
        tests=one_test(
            _HTTP_MALFORMED,
            "test_chunks_on_http_1_0_are_refused_and_nothing_behind_them_is_answered",
        ),
    ),
    Mutant(
        row="json",
        name="a duplicate key is accepted",
        invariant="a label cannot read L4 here and L1 there",
        where="proxy.dialects.strict_json.strict:_unique",
        fault=replaced("len(found) != len(pairs)", "len(found) > len(pairs)"),
        tests=one_test(
            "tests/unit/proxy/dialects/strict_json/test_strict.py",
            "test_what_two_readers_could_read_differently_is_refused",
        ),
    ),
    Mutant(
        row="wider",
        name="a listener beyond this machine without TLS is taken in silence",
        invariant="settings that let others near are named",
        where="proxy.settings.wider:wider_settings",
        fault=replaced("settings.tls_cert is None", "settings.tls_cert"),
        tests=one_test(
            "tests/unit/proxy/settings/test_wider.py",
            "test_each_setting_that_lets_others_near_is_named",
        ),
    ),
)
