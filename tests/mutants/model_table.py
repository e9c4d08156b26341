"""Faults in the model front: what goes upstream, and what goes on to the agent."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, dropped, one_test, replaced, returned

_CALLS_JUDGED: Final = "tests/unit/proxy/model/test_calls_judged.py"
_MATCHING: Final = "tests/unit/policy/withheld/test_matching.py"
_MODEL_COUPLING: Final = "tests/integration/test_model_coupling.py"
_MODEL_FRONT: Final = "tests/integration/test_model_front.py"
_MODEL_PASSING: Final = "tests/integration/test_model_passing.py"
_REPLIES_WITHHELD: Final = "tests/unit/proxy/dialects/model/test_replies_withheld.py"
_ROUTES: Final = "tests/unit/proxy/model/test_routes.py"

MODEL: Final = (
    Mutant(
        row="transcript",
        name="the request goes upstream as it came",
        invariant="no later model request carries what was refused",
        where="proxy.model.ledger_coupling:LedgerCoupling.prepare",
        fault=replaced("await self._withheld(asked, went, heard, conversation)", "asked.body"),
        tests=one_test(
            _MODEL_COUPLING, "test_what_was_refused_is_in_no_later_request_and_in_no_reply"
        ),
    ),
    Mutant(
        row="transcript",
        name="escapes hide words",
        invariant="JSON in a string is read like the text it spells",
        where="policy.withheld.words:words_of",
        fault=replaced("spelled_out(text)", "text"),
        tests=one_test(_MATCHING, "test_eight_words_in_a_row_are_found_however_they_are_written"),
    ),
    Mutant(
        row="forgotten",
        name="a candidate is not written down before it is judged",
        invariant="a crash between interception and verdict loses no refusal",
        where="proxy.withhold.withholding:Withholding.begun",
        fault=dropped("await self._log.append(map(encode, records))"),
        tests=one_test(
            "tests/unit/proxy/withhold/test_withholding_in_flight.py",
            "test_a_crash_between_interception_and_verdict_withholds_what_was_refused",
        ),
    ),
    Mutant(
        row="forgotten",
        name="a flood pushes the others out",
        invariant="long refused texts make room for themselves first",
        where="policy.withheld.refused_texts:RefusedTexts._make_room",
        fault=replaced("(-len(self._texts[one][0].numbers), one)", "one"),
        tests=one_test(_MATCHING, "test_a_flood_of_long_texts_makes_room_for_itself"),
    ),
    Mutant(
        row="blanking",
        name="nothing may be shown",
        invariant="a stored memory cannot be hidden by proposing it again",
        where="policy.withheld.refused_texts:RefusedTexts.is_open",
        fault=replaced("stored.proven or stored.version <= first", "stored.proven and first < 0"),
        tests=one_test(
            "tests/unit/proxy/withhold/test_withholding.py",
            "test_a_stored_memory_cannot_be_hidden_by_proposing_it_again",
        ),
    ),
    Mutant(
        row="blanking",
        name="what a person typed is cut",
        invariant="what a person typed stays",
        where="proxy.dialects.model.withheld:spoken",
        fault=replaced(
            "cut_between(text, typed, asks) if typed else cut(text, asks)", "cut(text, asks)"
        ),
        tests=one_test(
            "tests/unit/proxy/dialects/model/test_withheld.py",
            "test_what_a_person_typed_stays_in_every_api",
        ),
    ),
    Mutant(
        row="reopening",
        name="a memory opens what a person denied",
        invariant="no memory opens what a person denied",
        where="policy.withheld.refused_texts:RefusedTexts.is_open",
        fault=replaced("any((one.denied for one in terms))", "False"),
        tests=one_test(
            _MATCHING, "test_a_memory_opens_what_a_person_wrote_or_what_was_there_before"
        ),
    ),
    Mutant(
        row="withdrawn",
        name="a quarantined memory stays in the model's context",
        invariant="no model request that begins after a quarantine carries the memory",
        where="proxy.withhold.withholding:Withholding._look_at_store",
        fault=replaced("await self._verdicts.convictions.of(tenant)", "kept.convicted"),
        tests=one_test(
            "tests/unit/proxy/withhold/test_withdrawn.py",
            "test_a_quarantined_memory_leaves_the_next_request_and_parole_brings_it_back",
        ),
    ),
    Mutant(
        row="other-tools",
        name="a call that brings what was refused goes on",
        invariant="nothing that was refused goes to the agent",
        where="proxy.model.ledger_coupling:LedgerCoupling.judge",
        fault=replaced(
            "self._withholding.refusal(principal_id, call, prepared.conversation)", "None"
        ),
        tests=one_test(
            "tests/conformance/test_prlr.py", "test_no_rejected_text_is_sent_after_its_interception"
        ),
    ),
    Mutant(
        row="reply",
        name="a word goes out before it is over",
        invariant="any cut of a text gives the same text",
        where="policy.withheld.flow:Flow.feed",
        fault=replaced("not _is_over(rest, found)", "False"),
        tests=one_test(
            "tests/property/test_withheld.py", "test_a_cut_within_its_words_hides_no_refused_text"
        ),
    ),
    Mutant(
        row="reply",
        name="the rest of a delta passes",
        invariant="a text that comes in pieces is cut wherever it stands",
        where="proxy.dialects.model.replies_withheld:ReplyFilter._anthropic_delta",
        fault=replaced(
            "self._whole({**body, 'delta': {**delta, field: ''}}, (index, kind))", "body"
        ),
        tests=one_test(_REPLIES_WITHHELD, "test_no_event_brings_it_wherever_it_stands"),
    ),
    Mutant(
        row="unseen-write",
        name="a gate that is away opens",
        invariant="a check that cannot run is a check that failed",
        where="proxy.model.call_judge:CallJudge._write",
        fault=replaced("observation_of_call(Reason.GATE_UNAVAILABLE)", "None"),
        tests=one_test(_CALLS_JUDGED, "test_a_gate_that_cannot_answer_is_a_refusal"),
    ),
    Mutant(
        row="torn",
        name="a call that cannot be read goes on",
        invariant="an unknown way to write is refused",
        where="proxy.model.call_judge:CallJudge._one",
        fault=replaced(
            "f'{text} ({error.detail})'",
            "None if error else None",
        ),
        tests=one_test(_CALLS_JUDGED, "test_what_cannot_be_read_is_not_called"),
    ),
    Mutant(
        row="provider-history",
        name="another principal goes on from a response",
        invariant="what was said is its principal's alone",
        where="proxy.model.histories:Histories._before",
        fault=replaced(
            "self._kept.get(principal_id, OrderedDict())",
            "next(iter(self._kept.values()), OrderedDict[str, _Kept]())",
        ),
        tests=one_test(
            _MODEL_FRONT, "test_a_known_response_is_gone_on_from_with_its_whole_history"
        ),
    ),
    Mutant(
        row="provider-memory",
        name="hosted memory is any other route",
        invariant="a write on the provider's side is an unknown write",
        where="proxy.model.routes:purpose_of",
        fault=replaced("not _HOSTED.isdisjoint(names)", "not parts"),
        tests=one_test(_MODEL_FRONT, "test_other_routes_pass_untouched_and_hosted_memory_does_not"),
    ),
    Mutant(
        row="late-reply",
        name="replies of a batch pass unjudged",
        invariant="no call reaches the agent unjudged",
        where="proxy.model.stored_replies:StoredReplyEditor._reply",
        fault=replaced("not waiting", "reply"),
        tests=one_test(_MODEL_PASSING, "test_a_call_that_comes_back_with_a_batch_is_judged"),
    ),
    Mutant(
        row="other-routes",
        name="JSON of other routes goes on as it came",
        invariant="a key sent twice hides nothing",
        where="proxy.dialects.model.bodies:_json",
        fault=replaced(
            "write_body(vectors_back(sieve.sieved(bare_of_tokens(lean)), vectors))", "raw"
        ),
        tests=one_test(
            _MODEL_PASSING,
            "test_no_body_brings_a_refused_text_and_before_the_refusal_all_of_them_pass",
        ),
    ),
    Mutant(
        row="other-places",
        name="headers go upstream as they came",
        invariant="no header brings what was refused",
        where="proxy.model.redactor:Redactor.headers",
        fault=replaced("kept_headers(headers, self) if self.active else headers", "headers"),
        tests=one_test(_MODEL_PASSING, "test_no_path_query_or_header_brings_a_refused_text"),
    ),
    Mutant(
        row="stream-places",
        name="a comment passes",
        invariant="nothing stands beside the data of an event",
        where="proxy.dialects.model.replies_withheld:ReplyFilter._bare",
        fault=replaced("self._trailed((), text) == text", "bool(text)"),
        tests=one_test(_REPLIES_WITHHELD, "test_nothing_stands_beside_the_data_of_an_event"),
    ),
    Mutant(
        row="stream-calls",
        name="a block without a number passes",
        invariant="no call reaches the agent unjudged",
        where="proxy.dialects.model.anthropic.stream:AnthropicEditor._block",
        fault=replaced("(b'', ())", "(event.raw, ())"),
        tests=one_test(
            "tests/unit/proxy/dialects/model/test_editors.py",
            "test_no_call_goes_on_unjudged_wherever_a_stream_brings_it",
        ),
    ),
    Mutant(
        row="stream-readings",
        name="a key that comes twice goes on",
        invariant="whoever reads a reply finds the calls that were judged",
        where="proxy.dialects.model.one_reading:straight_event",
        fault=replaced("not repeats(event.data, body)", "True"),
        tests=one_test(
            "tests/unit/proxy/dialects/model/test_one_reading.py", "test_no_frame_hides_a_call"
        ),
    ),
    Mutant(
        row="stream-lines",
        name="a text may end a line",
        invariant="a model cannot write an event of its own into its text",
        where="proxy.dialects.sse:",
        fault=replaced(
            "{b'\\xc2\\x85': b'\\\\u0085', b'\\xe2\\x80\\xa8': b'\\\\u2028', "
            "b'\\xe2\\x80\\xa9': b'\\\\u2029'}",
            "{b'\\xc2\\x85': b'\\\\u0085', b'\\xe2\\x80\\xa9': b'\\\\u2029'}",
        ),
        tests=one_test(
            "tests/unit/proxy/dialects/test_sse.py",
            "test_no_text_of_a_model_ends_a_line_for_any_reader",
        ),
    ),
    Mutant(
        row="paths",
        name="any path is sent",
        invariant="what is classified is what is served",
        where="proxy.model.routes:check_path",
        fault=replaced("_PATH.fullmatch(rest) is None", "rest and (not rest.startswith('/'))"),
        tests=one_test(_ROUTES, "test_a_path_that_two_servers_may_read_differently_is_refused"),
    ),
    Mutant(
        row="other-apis",
        name="a route that nobody knows passes",
        invariant="what a route brings is known, or its operator listed it",
        where="proxy.model.routes:is_known",
        fault=replaced("_KNOWN.fullmatch(path)", "path"),
        tests=one_test(_ROUTES, "test_a_route_that_nobody_knows_is_refused_unless_it_is_listed"),
    ),
    Mutant(
        row="upgrade",
        name="a changed protocol is an answer",
        invariant="nothing interim is passed on as an answer",
        where="proxy.transport.upstream:Upstream._reply",
        fault=replaced("response.status < _FINAL_FROM", "not response.status"),
        tests=one_test(
            "tests/unit/proxy/transport/test_upstream.py",
            "test_whatever_comes_instead_of_an_answer_is_one_error",
        ),
    ),
    Mutant(
        row="our-key",
        name="a key of ours stays in its header",
        invariant="no key of ours goes upstream",
        where="proxy.model.routes:admit",
        fault=dropped("del headers[name]"),
        tests=one_test(
            "tests/unit/proxy/model/test_credentials.py",
            "test_no_key_of_ours_goes_upstream_from_any_place",
        ),
    ),
    Mutant(
        row="leftovers",
        name="a key is not looked into",
        invariant="no place of a request brings what was refused",
        where="proxy.dialects.model.withheld:passes",
        fault=replaced("_KEY.fullmatch(key) is not None", "bool(key)"),
        tests=one_test(
            "tests/unit/proxy/withhold/test_withholding_in_flight.py",
            "test_no_place_of_a_request_brings_it",
        ),
    ),
    Mutant(
        row="naming",
        name="what only names is blanked",
        invariant="who proposes a model's name cannot take it away",
        where="proxy.dialects.model.withheld:beside",
        fault=replaced(
            "value if named else spoken(value, where, leave, asks)",
            "spoken(value, where, leave, asks)",
        ),
        tests=one_test(
            _MODEL_PASSING,
            "test_a_version_or_a_model_is_not_taken_away_by_proposing_to_remember_it",
        ),
    ),
    Mutant(
        row="transcript",
        name="whatever the host says is its own",
        invariant="what another said first is searched in the host's words too",
        where="proxy.withhold.first_speakers:FirstSpeakers.own",
        fault=replaced("all((self._marks.get(one) == OWN for one in part.prints))", "True"),
        tests=one_test(
            "tests/conformance/test_withheld_places.py",
            "test_what_a_page_says_first_is_left_in_her_words_alone",
        ),
    ),
    Mutant(
        row="transcript",
        name="what stands between tags is hers",
        invariant="a turn is hers outside of tags alone",
        where="proxy.withhold.voices:tagged",
        fault=returned("[[] for _ in texts]"),
        tests=one_test(
            "tests/conformance/test_withheld_places.py",
            "test_what_a_page_says_first_is_left_in_her_words_alone",
        ),
    ),
)
