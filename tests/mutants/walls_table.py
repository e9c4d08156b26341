"""Faults in the walls around the gate: files of operators, listeners, two gates on one state."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_TRUSTED: Final = "storage/trusted_files.py"
_FILES: Final = "tests/unit/storage/test_trusted_files.py"
_GATES: Final = "tests/fault/test_two_gates.py"
_KEY: Final = "tests/unit/storage/test_store_key.py"
_PROCESSES: Final = "tests/unit/proxy/doctor/test_processes.py"
_RULES: Final = "tests/unit/proxy/dialects/mcp/test_class_rules.py"
_MALFORMED: Final = "tests/integration/test_http_malformed.py"
_CONNECTION: Final = "proxy/transport/connection.py"
_CROWD: Final = "proxy/transport/crowd.py"
_CONNECTIONS: Final = "tests/unit/proxy/transport/test_connection.py"
_CROWDS: Final = "tests/unit/proxy/transport/test_crowd.py"
_HALF: Final = "tests/integration/test_http_half_closed.py"
_CHUNKS: Final = "tests/unit/proxy/transport/test_chunks.py"
_SMUGGLED: Final = "tests/integration/test_http_smuggling.py"
_REFUSED: Final = "test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_run"
_FIXED: Final = "test_what_the_parser_says_by_itself_is_said_in_fixed_words_and_logged_nowhere"
_PLACES: Final = "tests/unit/proxy/settings/test_places.py"
_ENDS: Final = "tests/integration/test_credentials_end.py"
_COMMAND: Final = "tests/integration/test_mcp_http_command.py"
_WIDER: Final = "tests/unit/proxy/settings/test_wider.py"
_AUTH: Final = "proxy/transport/auth.py"
_AUTHS: Final = "tests/unit/proxy/transport/test_auth.py"
_NEIGHBOURS: Final = "tests/integration/test_neighbours.py"
_OPERATIONS: Final = "tests/unit/proxy/intercept/test_operations.py"
_TOLD_THE_SAME: Final = "test_a_tenant_is_told_the_same_however_much_its_neighbour_writes"

_TRACES: Final = "tests/unit/telemetry/test_propagation.py"
WALLS: Final = (
    Mutant(
        name="a file below another user's directory is taken",
        file=_TRUSTED,
        old="        _refuse_owner(entry, found)\n",
        new="",
        invariant="nobody else can exchange what an operator names",
        tests=(
            at(_FILES, "test_a_file_below_another_users_directory_is_refused"),
            at(_PLACES, "test_a_state_below_another_users_directory_is_refused"),
        ),
    ),
    Mutant(
        name="a directory that others can write is taken without the sticky bit",
        file=_TRUSTED,
        old="    if found.st_mode & stat.S_ISVTX:\n",
        new="    if others:\n",
        invariant="nobody else can exchange what an operator names",
        tests=(at(_FILES, "test_a_directory_that_others_can_write_needs_the_sticky_bit"),),
    ),
    Mutant(
        name="every group has nobody else in it",
        file=_TRUSTED,
        old="    return members <= {0, os.geteuid()}\n",
        new="    return True\n",
        invariant="what a group can write counts only where nobody else is in it",
        tests=(at(_FILES, "test_a_group_counts_by_who_else_is_in_it"),),
    ),
    Mutant(
        name="a pipe in place of a ruleset is taken",
        file=_TRUSTED,
        old='        raise UnfitFile(f"a regular file, and {path} is none")\n',
        new="        pass\n",
        invariant="no file that is configured stops a start or a reload for good",
        tests=(at(_PLACES, "test_a_ruleset_that_became_a_pipe_stops_no_reload"),),
    ),
    Mutant(
        name="a state that is expected and not there is begun anew",
        file="proxy/settings/load.py",
        old="        if expected and not (state / MARKER).is_file():\n",
        new="        if not state and expected:\n",
        invariant="where a store is expected no empty one takes its place",
        tests=(at(_PLACES, "test_a_state_that_is_expected_and_there_starts"),),
    ),
    Mutant(
        name="a lock file that was cleared away lets a second gate in",
        file="storage/state_directory.py",
        old="            for one in (handle, itself):\n",
        new="            for one in (handle,):\n",
        invariant="one gate per state directory, whatever becomes of its lock files",
        tests=(at(_GATES, "test_who_clears_the_lock_files_away_lets_no_second_gate_in"),),
    ),
    Mutant(
        name="a gate goes on from what it remembers",
        file="storage/write/engine.py",
        old="        if self.parts.store.overtaken(draft) or draft.header() != self._durable:\n",
        new="        if draft.header() != self._durable:\n",
        more=(
            (
                "            if parts.store.overtaken(draft):\n",
                "            if parts.store.overtaken(draft) and self.broken:\n",
            ),
        ),
        invariant="no transaction follows on another process's but by the header it left",
        tests=(at(_GATES, "test_a_gate_that_was_overtaken_writes_nothing_more_and_says_so"),),
    ),
    Mutant(
        name="a file put in the store's place is written to",
        file="storage/tables/lmdb_store.py",
        old='            return (self.directory / "data.mdb").stat().st_ino != self._inode\n',
        new='            return (self.directory / "data.mdb").stat().st_ino == 0\n',
        more=(
            (
                "        except FileNotFoundError:\n            return True\n",
                "        except FileNotFoundError:\n            return False\n",
            ),
        ),
        invariant="nothing is answered that no start will find",
        tests=(at(_GATES, "test_a_state_that_was_moved_away_under_a_gate_takes_nothing_more"),),
    ),
    Mutant(
        name="any store key opens a store",
        file="storage/derived/recovery.py",
        old="    if known and known != key_check:\n",
        new="    if known and not key_check:\n",
        invariant="no other key voids the nonces that were spent",
        tests=(
            at(_KEY, "test_a_store_opens_with_no_other_store_key_and_an_auditor_is_told"),
            at(_KEY, "test_a_store_of_before_learns_its_key_with_its_next_transaction"),
        ),
    ),
    Mutant(
        name="a class rule is compared as it was typed",
        file="proxy/dialects/mcp/class_rules.py",
        old='    folded = skeleton(_CAMEL.sub(" ", text))\n',
        new="    folded = text\n",
        invariant="a class rule fits what its author reads in it",
        tests=(at(_RULES, "test_what_a_rule_says_is_what_it_fits"),),
    ),
    Mutant(
        name="a pattern repeats as often as it likes",
        file="proxy/dialects/mcp/class_rules.py",
        old="            if repeated or not pieces",
        new="            if not pieces",
        invariant="no text of an agent keeps a class rule from ending",
        tests=(at(_RULES, "test_a_pattern_that_may_not_end_is_refused"),),
    ),
    Mutant(
        name="chunks are read on any version",
        file="proxy/transport/request.py",
        old="            tuple(request.version) == _HTTP_11 and ",
        new="            tuple(request.version) and ",
        invariant="no reader finds another end of a request than ours",
        tests=(
            at(
                _MALFORMED,
                "test_chunks_on_http_1_0_are_refused_and_nothing_behind_them_is_answered",
            ),
        ),
    ),
    Mutant(
        name="doctor reaches for every gate of the machine",
        file="proxy/doctor/locate.py",
        old="    holders = lock_holders(state)\n",
        new="    holders = running_sidecars(uid)\n",
        invariant="doctor traces no process but the gate in question",
        tests=(at(_PROCESSES, "test_only_the_gate_of_the_state_in_question_is_found"),),
    ),
    Mutant(
        name="a write that waits is committed although its key ended",
        file="storage/write/engine.py",
        old="        if welcome is not None and not welcome():\n",
        new="        if welcome is None:\n",
        invariant="a key is looked at again in the transaction that would commit",
        tests=(
            at(
                _ENDS,
                "test_what_was_decided_before_a_key_ended_stands_and_what_waits_is_refused",
            ),
        ),
    ),
    Mutant(
        name="what is open on a key goes on without it",
        file="proxy/transport/exchange.py",
        old="        access.tell(self.gone.happen)\n",
        new="",
        invariant="a stream ends with the key that asked for it",
        tests=(at(_ENDS, "test_a_models_stream_ends_with_the_key_that_asked"),),
    ),
    Mutant(
        name="a request does not look at its key again",
        file="proxy/transport/exchange.py",
        old="        self._accesses.append(access)\n",
        new="",
        invariant="a key is looked at again when a body is whole",
        tests=(at(_ENDS, "test_a_read_that_is_answered_after_the_key_ended_shows_nothing"),),
    ),
    Mutant(
        name="a session outlives the key that opened it",
        file="proxy/mcp/http/hub.py",
        old="        access.tell(line.close)\n",
        new="",
        invariant="the processes behind a key end with it",
        tests=(at(_COMMAND, "test_the_processes_behind_a_key_end_with_it"),),
    ),
    Mutant(
        name="a key ends when its end is on disk, not before",
        file=_AUTH,
        old="        self._access_to(digest).end()\n",
        new="",
        invariant="nothing is let in, or committed, once a key is being ended",
        tests=(at(_AUTHS, "test_what_is_open_on_a_key_ends_with_it_and_nothing_else_does"),),
    ),
    Mutant(
        name="a key that the disk kept is refused for good",
        file=_AUTH,
        old="            self._ended.discard(digest)\n",
        new="",
        invariant="an end that was not written has not happened",
        tests=(
            at(_AUTHS, "test_a_key_whose_end_the_disk_refused_is_good_for_whoever_comes_again"),
        ),
    ),
    Mutant(
        name="what is open on a rotated key goes on after its grace",
        file=_AUTH,
        old="loop.call_later(left_s, ",
        new="loop.call_later(1e6, ",
        invariant="a key that has an end to come ends what is open when it comes",
        tests=(at(_AUTHS, "test_a_key_with_an_end_to_come_ends_what_is_open_when_it_comes"),),
    ),
    Mutant(
        name="the first bound name of a certificate counts",
        file=_AUTH,
        old="        if any(one != named[0] for one in named):\n",
        new="        if not named:\n",
        invariant="two names of two principals name nobody",
        tests=(at(_AUTHS, "test_a_certificate_with_the_names_of_two_principals_names_nobody"),),
    ),
    Mutant(
        name="a route that nobody knows passes",
        file="proxy/model/routes.py",
        old="    return _KNOWN.fullmatch(path) is not None or (\n",
        new="    return path is not None or (\n",
        invariant="what a route brings is known, or its operator listed it",
        tests=(
            at(
                "tests/unit/proxy/model/test_routes.py",
                "test_a_route_that_nobody_knows_is_refused_unless_it_is_listed",
            ),
        ),
    ),
    Mutant(
        name="a key among other words goes upstream",
        file=_AUTH,
        old="        return found is None or not found.isdisjoint(self._records())\n",
        new="        return self.is_ours(text)\n",
        invariant="no key of ours goes to a server behind, whatever stands around it",
        tests=(
            at(
                "tests/unit/proxy/model/test_credentials.py",
                "test_a_key_among_other_words_is_refused_wherever_it_would_go_on",
            ),
        ),
    ),
    Mutant(
        name="a changed protocol is an answer",
        file="proxy/transport/upstream.py",
        old="        if response.status < _FINAL_FROM:\n",
        new="        if not response.status:\n",
        invariant="nothing interim is passed on as an answer",
        tests=(
            at(
                "tests/unit/proxy/transport/test_upstream.py",
                "test_whatever_comes_instead_of_an_answer_is_one_error",
            ),
        ),
    ),
    Mutant(
        name="a matrix that admits more than the shipped one is taken in silence",
        file="policy/ruleset.py",
        old="        > _WIDTH.index(shipped.cell(source, memory_class))\n",
        new="        > len(_WIDTH)\n",
        invariant="rules that let more in than the shipped ones are named",
        tests=(at(_WIDER, "test_each_rule_that_lets_more_in_is_named"),),
    ),
    Mutant(
        name="a listener beyond this machine without TLS is taken in silence",
        file="proxy/settings/wider.py",
        old="        if settings.tls is None and not is_loopback(address.host):\n",
        new="        if settings.tls and not is_loopback(address.host):\n",
        invariant="settings that let others near are named",
        tests=(at(_WIDER, "test_each_setting_that_lets_others_near_is_named"),),
    ),
    Mutant(
        name="a list of memory files replaces the shipped one in silence",
        file="proxy/settings/wider.py",
        old='        found += _unjudged(f"[[model]] {model.name}", model.maps.memory_paths)\n',
        new="        pass\n",
        invariant="memory files that nobody judges any more are named",
        tests=(at(_WIDER, "test_memory_files_that_a_list_of_ones_own_leaves_out_are_named"),),
    ),
    Mutant(
        name="a caller's trace id is taken over",
        file="telemetry/propagation.py",
        old="        if self._is_ours(trace_id):\n",
        new="        if trace_id:\n",
        invariant="no byte of a caller's ids is kept or exported",
        tests=(
            at(_TRACES, "test_nothing_of_a_callers_ids_is_taken_over"),
            "tests/conformance/test_trace_ids.py",
        ),
    ),
    Mutant(
        name="anybody can tell whose hash stands beside a trace",
        file="telemetry/propagation.py",
        old="digest_size=_MARK_BYTES, key=self._key, person=purpose",
        new="digest_size=_MARK_BYTES, person=purpose",
        invariant="what stands for a caller's trace is made with the store's key",
        tests=(at(_TRACES, "test_one_trace_of_a_caller_has_one_hash_and_another_key_another"),),
    ),
    Mutant(
        name="a head has no bound",
        file=_CONNECTION,
        old="        if self._raw > HEAD_BYTES_MAX or ",
        new="        if ",
        invariant="nobody without a credential makes us hold much",
        tests=(at(_CONNECTIONS, "test_a_head_is_refused_above_its_bound_and_not_at_it"),),
    ),
    Mutant(
        name="a stranger's body is read in large pieces",
        file=_CONNECTION,
        old="        return HELD_BYTES_MAX if self.principal is None else READ_BYTES_MAX\n",
        new="        return READ_BYTES_MAX\n",
        invariant="nobody without a credential makes us hold much",
        tests=(
            at(
                _CONNECTIONS,
                "test_only_of_whom_we_know_much_is_read_at_once",
            ),
        ),
    ),
    Mutant(
        name="what nobody asked for is held without end",
        file=_CONNECTION,
        old="(bool(self._held) and len(self._held) >= self._held_max)\n",
        new="False\n",
        invariant="nobody without a credential makes us hold much",
        tests=(
            at(_CONNECTIONS, "test_no_more_is_held_than_may_be_before_anybody_asks_for_a_body"),
        ),
    ),
    Mutant(
        name="the server speaks for itself",
        file="proxy/transport/spoken.py",
        old="        if self._connection.speaking:\n",
        new="        if self._real is not None:\n",
        invariant="a malformed request is quoted in no answer",
        tests=(at(_CONNECTIONS, _FIXED),),
    ),
    Mutant(
        name="the server logs what it cannot parse",
        file=_CONNECTION,
        old="        logger=_SILENT,\n",
        new="",
        invariant="a malformed request is quoted in no log",
        tests=(at(_CONNECTIONS, _FIXED),),
    ),
    Mutant(
        name="a request is run with garbage behind it",
        file=_CONNECTION,
        old="        return not self._request.keep_alive or not may_begin(behind)\n",
        new="        return False\n",
        invariant="no reader finds another end of a request than ours",
        tests=(at(_SMUGGLED, _REFUSED),),
    ),
    Mutant(
        name="a body may end with trailers",
        file="proxy/transport/chunks.py",
        old="        elif line:\n            raise Unframed\n",
        new="        elif line:\n            pass\n",
        invariant="nothing of one request is read as part of the next",
        tests=(at(_CHUNKS, "test_what_another_reader_could_cut_elsewhere_is_refused"),),
    ),
    Mutant(
        name="who has shown no credential keeps the connection",
        file="proxy/transport/listener.py",
        old="        known = bool(answered.principal) and not welcome.over\n",
        new="        known = not welcome.over\n",
        invariant="a connection without a credential stands in nobody's way",
        tests=(at(_SMUGGLED, _REFUSED),),
    ),
    Mutant(
        name="who ends its side is hung up on while its write is judged",
        file=_CONNECTION,
        old="        self._hear_out()\n        return True\n",
        new="        self._hear_out()\n        return False\n",
        invariant="what is done is answered to whoever still reads",
        tests=(at(_HALF, "test_one_that_is_judged_when_the_end_comes_is_answered_too"),),
    ),
    Mutant(
        name="the rest of a request is awaited of who says no more",
        file=_CONNECTION,
        old="        elif self._at is not _At.HELD and not self.broken:\n            self.end()\n",
        new="",
        invariant="nobody waits for a peer that says no more",
        tests=(at(_HALF, "test_what_is_not_whole_is_not_done_and_nobody_waits_for_it"),),
    ),
    Mutant(
        name="a stream runs on for a peer that may be gone",
        file=_CONNECTION,
        old="            self._loop.call_soon(self.departure.happen)\n",
        new="            pass\n",
        invariant="what is done elsewhere for a peer ends with it",
        tests=(
            at(
                "tests/integration/test_http_streams.py",
                "test_a_peer_that_leaves_an_idle_stream_frees_it",
            ),
        ),
    ),
    Mutant(
        name="a head that waits for the loop is late",
        file=_CONNECTION,
        old="        if self._at is _At.PARSED and not self._excused:\n",
        new="        if self._excused:\n",
        invariant="nobody pays for a neighbour's work with an error",
        tests=(
            at(
                _CONNECTIONS,
                "test_who_sent_a_whole_head_does_not_pay_for_a_loop_that_was_busy",
            ),
        ),
    ),
    Mutant(
        name="a request line of another protocol is served",
        file=_CONNECTION,
        old=" or not may_begin(self._line):",
        new=":",
        invariant="versions 1.0 and 1.1 of HTTP, and nothing else",
        tests=(at(_SMUGGLED, _REFUSED),),
    ),
    Mutant(
        name="few connections may wait for the loop",
        file="proxy/transport/listener.py",
        old="            same.listen(QUEUED_MAX)\n",
        new="            same.listen(ACCEPTED_AT_ONCE)\n",
        invariant="a flood of connections does not make others try again",
        tests=(
            at(
                "tests/integration/test_http_peers.py",
                "test_connections_that_come_faster_than_they_are_accepted_wait_in_the_kernel",
            ),
        ),
    ),
    Mutant(
        name="nobody makes room",
        file=_CROWD,
        old="            leaving = _first(self._strangers, lambda one: one.waits)\n",
        new="            leaving = None\n",
        invariant="a connection without a credential stands in nobody's way",
        tests=(
            at(_CROWDS, "test_the_oldest_stranger_of_the_peer_with_most_of_them_goes_first"),
            at(_CROWDS, "test_strangers_never_take_the_place_of_who_has_shown_a_credential"),
        ),
    ),
    Mutant(
        name="one principal may take every turn",
        file=_CROWD,
        old="        if own >= BURST * (self._most - self._known):\n",
        new="        if self._known - own + own >= self._most:\n",
        invariant="one key's requests leave room for the next one's",
        tests=(at(_CROWDS, "test_one_principal_gets_most_and_leaves_some_for_each_next_one"),),
    ),
    Mutant(
        name="a form without a key may have any size",
        file="proxy/fronts/confirm_page.py",
        old="await incoming.complete(FORM_BYTES_MAX)",
        new="await incoming.complete()",
        invariant="nobody without a credential makes us hold much",
        tests=(
            at(
                "tests/integration/test_confirm_page.py",
                "test_a_form_in_chunks_is_cut_off_where_a_declared_one_is",
            ),
        ),
    ),
    Mutant(
        name="a relay is told the store's own numbers",
        file="proxy/intercept/operations.py",
        old="        if principal.channel is Channel.OPERATOR:\n",
        new="        if principal.channel:\n",
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        tests=(
            at(_NEIGHBOURS, "test_a_relay_is_told_the_same_however_much_its_neighbour_writes"),
            at(_OPERATIONS, "test_only_an_operator_is_told_where_a_change_stands_in_the_store"),
        ),
    ),
    Mutant(
        name="the steps of a history have the store's versions",
        file="proxy/seams/operation.py",
        old="replace(entry, version=0, leaf_index=-1) for entry",
        new="replace(entry) for entry",
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_operations.py",
                "test_each_read_answers_and_tells_how_many_records_left",
            ),
        ),
    ),
    Mutant(
        name="a retry is answered with the leaf of the first verdict",
        file="proxy/seams/operation.py",
        old="version=0, leaf_index=0, memory=memory)",
        new="version=0, memory=memory)",
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        tests=(at(_NEIGHBOURS, "test_a_relay_is_told_the_same_however_much_its_neighbour_writes"),),
    ),
    Mutant(
        name="a span has the number of the leaf",
        file="telemetry/tracing.py",
        old='        "mnemogate.epoch": event.ruleset_epoch,\n',
        new='        "mnemogate.epoch": event.leaf_index,\n',
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        tests=(at(_NEIGHBOURS, _TOLD_THE_SAME),),
    ),
    Mutant(
        name="who asks is told how often the store changed",
        file="proxy/intercept/operations.py",
        old="incarnation=status.incarnation)",
        new='incarnation=f"{status.incarnation}.{status.version}")',
        invariant="what a tenant is told says nothing of how much its neighbours wrote",
        tests=(at(_NEIGHBOURS, _TOLD_THE_SAME),),
    ),
    Mutant(
        name="a name of a certificate is believed of any kind",
        file="proxy/transport/peers.py",
        old='            names.append(f"{kind}:{value}")\n',
        new='            names.extend((f"{kind}:{value}", value))\n',
        invariant="a certificate is who it names, by that kind of name",
        tests=(
            at(
                "tests/integration/test_http_certificates.py",
                "test_a_certificate_that_comes_near_a_bound_name_is_nobody",
            ),
        ),
    ),
    Mutant(
        name="a socket answers before the first keys are known",
        file="proxy/compose/listening.py",
        old="uids, private=False, serving=False)",
        new="uids, private=False)",
        invariant="who connects while a sidecar starts waits",
        tests=(
            at(
                "tests/integration/test_start_order.py",
                "test_a_key_that_the_operator_gave_is_known_before_anybody_is_answered",
            ),
        ),
    ),
)
