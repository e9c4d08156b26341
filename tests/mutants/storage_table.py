"""Faults in the commit path: what is put, when it is put, and what may be read of it later."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_JUDGING: Final = "storage/write/judging.py"
_HELD_LIMITS: Final = "tests/unit/storage/write/test_held_limits.py"
_COMMIT: Final = "storage/write/commit.py"
_GATHERING: Final = "storage/write/gathering.py"
_INTAKE: Final = "storage/write/trust_intake.py"
_STAGING: Final = "storage/staging/staging.py"
_SEALING: Final = "storage/staging/sealing.py"
_UNDECIDED: Final = "storage/staging/undecided.py"
_ENGINE: Final = "storage/write/engine.py"
_ALTERED: Final = "tests/fault/test_staging_altered.py"
_STAGING_TESTS: Final = "tests/unit/storage/staging/test_staging.py"
_UNDECIDED_TESTS: Final = "tests/unit/storage/staging/test_undecided.py"
_WRITES: Final = "tests/unit/storage/write/test_writes.py"
_COMMITS: Final = "tests/unit/storage/write/test_commit.py"
_HELD: Final = "tests/unit/storage/write/test_held.py"
_KILLED: Final = at(
    "tests/fault/test_crash_points.py",
    "test_killed_at_a_crash_point_nothing_refused_is_on_disk_and_nothing_answered_is_lost",
)

STORAGE: Final = (
    Mutant(
        name="a start that is refused leaves a store behind",
        file="storage/embedded.py",
        old="        check_new_store(checkpoint)\n",
        new="        pass\n",
        invariant="beside another store's checkpoint nothing is begun",
        tests=(
            at(
                "tests/unit/storage/write/test_checkpoint_copy.py",
                "test_a_new_store_beside_anothers_checkpoint_is_refused_before_it_is_made",
            ),
        ),
    ),
    Mutant(
        name="a culprit's name may say what was refused",
        file="storage/audit/leaves.py",
        old="    if _PLAIN.fullmatch(name) is None or any(run in said for run in runs):\n",
        new="    if _PLAIN.fullmatch(name) is None:\n",
        invariant="no byte of a refused candidate is in any file: not in any name in a leaf",
        tests=(
            at(
                "tests/conformance/test_guarded_origins.py",
                "test_nor_where_a_front_names_a_segment_as_the_model_did",
            ),
        ),
    ),
    Mutant(
        name="a permit is not spent",
        file=_COMMIT,
        old="        permit.spend()\n",
        new="",
        invariant="one permit is one commit",
        tests=(at(_COMMITS, "test_a_permit_is_spent_by_its_commit"),),
        quick=True,
    ),
    Mutant(
        name="the epoch is not checked",
        file=_COMMIT,
        old="        if permit.epoch != epoch:\n",
        new="        if permit.epoch < 0:\n",
        invariant="a verdict under rules that were replaced commits nothing",
        tests=(at(_COMMITS, "test_a_permit_of_another_epoch_puts_nothing"),),
    ),
    Mutant(
        name="required steps are not checked",
        file=_COMMIT,
        old="        if not permit.passed >= self._required:\n",
        new="        if not permit.passed:\n",
        invariant="a permit names every required step",
        tests=(at(_COMMITS, "test_a_permit_that_skipped_a_step_puts_nothing"),),
    ),
    Mutant(
        name="the bytes are not hashed as they are written",
        file=_COMMIT,
        old="hashlib.sha256(judged.canonical).digest() != permit.digest",
        new="not judged.canonical",
        invariant="the bytes that are stored are those that were judged",
        tests=(at(_COMMITS, "test_bytes_that_changed_after_the_verdict_are_not_stored"),),
    ),
    Mutant(
        name="a commit moves no version",
        file=_COMMIT,
        old="        change.version += 1\n",
        new="",
        invariant="one admitted candidate is one version",
        tests=(at(_WRITES, "test_batch_of_three_admissions_is_three_versions"),),
    ),
    Mutant(
        name="a rejection moves the version",
        file=_JUDGING,
        old="        first = self._refusal(change, docket, verdict, ruleset, Decision.REJECT)\n",
        new="        change.version += 1\n"
        "        first = self._refusal(change, docket, verdict, ruleset, Decision.REJECT)\n",
        invariant="the version moves by a commit and never otherwise",
        tests=(at(_WRITES, "test_rejected_candidate_leaves_no_row_no_vector_no_version"),),
        quick=True,
    ),
    Mutant(
        name="content is put before its verdict",
        file=_JUDGING,
        old="        verdict = self._decide(change, docket, ruleset)\n",
        new="        change.draft.put(TOKENS, os.urandom(16), case.staged or b'')\n"
        "        verdict = self._decide(change, docket, ruleset)\n",
        invariant="nothing of a candidate is in production before its admit",
        tests=(
            at(
                "tests/fault/test_erasure.py",
                "test_denied_candidate_never_had_a_readable_byte_on_disk",
            ),
        ),
    ),
    Mutant(
        name="a nonce is not recorded",
        file=_JUDGING,
        old="            change.draft.put(NONCES, arrived.nonce_key, encode(record))\n",
        new="            encode(record)\n",
        invariant="a nonce is single-use, durably",
        tests=(
            at(_WRITES, "test_retry_of_the_same_request_gets_the_first_verdict_and_writes_nothing"),
        ),
    ),
    Mutant(
        name="a nonce is not bound to its target",
        file="storage/tables/keys.py",
        old="            candidate.target.encode(),\n",
        new="",
        invariant="a nonce is bound to digest, principal and target",
        tests=("tests/unit/storage/tables/test_keys.py",),
    ),
    Mutant(
        name="a replay is taken for a retry",
        file=_GATHERING,
        old="if record.binding == case.arrived.binding:",
        new="if record.binding:",
        invariant="the same nonce with anything changed is a replay",
        tests=(at(_WRITES, "test_a_spent_nonce_with_anything_changed_is_a_replay_and_degrades"),),
    ),
    Mutant(
        name="a nonce of another life counts",
        file=_GATHERING,
        old="if incarnation is not None and incarnation != change.before.incarnation_name:",
        new="if incarnation is not None and not incarnation:",
        invariant="a nonce is bound to the store's incarnation",
        tests=(at(_WRITES, "test_a_nonce_of_another_incarnation_is_refused"),),
    ),
    Mutant(
        name="nonces of all principals are one",
        file="storage/tables/keys.py",
        old='return self._name(b"nonce", principal_id.encode(), nonce.encode())',
        new='return self._name(b"nonce", nonce.encode())',
        invariant="a nonce belongs to the principal who sent it",
        tests=(at(_WRITES, "test_the_same_nonce_of_another_principal_is_another_nonce"),),
    ),
    Mutant(
        name="ids of all tenants are one",
        file="storage/tables/keys.py",
        old='return self._name(b"memory", tenant.encode(), memory_id.encode())',
        new='return self._name(b"memory", memory_id.encode())',
        invariant="the same id in another tenant is another memory",
        tests=(
            at(_WRITES, "test_the_same_id_in_another_tenant_is_another_memory"),
            at(
                "tests/integration/test_http_standing.py",
                "test_a_memory_of_another_tenant_is_as_one_that_never_was",
            ),
        ),
    ),
    Mutant(
        name="a token is not spent",
        file=_JUDGING,
        old='            change.draft.put(TOKENS, self._names.token(submission.token_key), b"")\n',
        new="            self._names.token(submission.token_key)\n",
        invariant="a promotion token is spent by the commit it admitted",
        tests=(at(_WRITES, "test_a_promotion_token_is_spent_by_the_commit_it_admitted"),),
    ),
    Mutant(
        name="one violation counts each time it is sent",
        file=_INTAKE,
        old="        if change.draft.has(CHARGES, key):\n            return trust\n",
        new="",
        invariant="one (nonce, digest) counts once",
        tests=(at(_WRITES, "test_a_replayed_violation_with_the_same_bytes_is_charged_once"),),
    ),
    Mutant(
        name="trust is not kept",
        file=_INTAKE,
        old="        lowered = after_violation(trust)\n",
        new="        lowered = trust\n",
        invariant="the ladder is durable",
        tests=(at(_WRITES, "test_the_same_violation_counts_once_and_the_third_makes_untrusted"),),
    ),
    Mutant(
        name="a decided candidate keeps its key",
        file="storage/write/engine.py",
        old="        self.destroy(change.held_gone)\n",
        new="",
        invariant="the key of what was denied is destroyed before the answer",
        tests=(at(_HELD, "test_denied_candidate_is_refused_and_its_key_destroyed"),),
    ),
    Mutant(
        name="what expires keeps its key",
        file="storage/write/engine.py",
        old="self.destroy(change.held_gone)",
        new="self.destroy(change.held_gone if not change.judged else ())",
        invariant="what nobody decided in time can be read by nobody",
        tests=(at(_HELD_LIMITS, "test_one_origin_cannot_keep_others_from_being_held"),),
    ),
    Mutant(
        name="the oldest hold makes room, whoever caused it",
        file="storage/write/waiting.py",
        old="key=lambda one: (-counts[held[one].origin], held[one].leaf_index)",
        new="key=lambda one: held[one].leaf_index",
        invariant="one origin cannot push out what another one waits for",
        tests=(at(_HELD_LIMITS, "test_one_origin_cannot_keep_others_from_being_held"),),
    ),
    Mutant(
        name="a full queue refuses",
        file=_JUDGING,
        old="        self.expire(change, crowding, ruleset)\n        return True\n",
        new="        return False\n",
        invariant="a queue that nobody reads never turns into refusals",
        tests=(at(_HELD_LIMITS, "test_one_origin_cannot_keep_others_from_being_held"),),
    ),
    Mutant(
        name="a hold waits for ever",
        file="storage/write/writer.py",
        old="            self._operating.expire()\n",
        new="",
        invariant="what nobody decided for thirty days expires",
        tests=(at(_HELD_LIMITS, "test_what_nobody_decided_for_thirty_days_expires_with_a_leaf"),),
    ),
    Mutant(
        name="a hold commits before it is durable in staging",
        file="storage/write/engine.py",
        old="                parts.staging.hold(change.kept)\n            parts.judge.cells",
        new="                pass\n            parts.judge.cells",
        more=(
            (
                "        self.generation = after\n        parts.judge.waiting",
                (
                    "        self.generation = after\n"
                    "        if change.kept:\n"
                    "            parts.staging.hold(change.kept)\n"
                    "        parts.judge.waiting"
                ),
            ),
        ),
        invariant="a hold that outlives a crash has what it holds",
        tests=(
            _KILLED,
            "tests/fault/test_commit_outcomes.py",
        ),
    ),
    Mutant(
        name="the generation moves before the commit",
        file="storage/write/engine.py",
        old="            ready = True\n",
        new="            ready = True\n            self.generation = after\n",
        invariant="a checkpoint is copied, and a version told, only of what is durable",
        tests=("tests/fault/test_commit_outcomes.py",),
    ),
    Mutant(
        name="an unsound log is a backup",
        file="storage/upkeep/restore.py",
        old="    if bad is not None:\n",
        new="    if False:\n",
        invariant="a backup is one only after an auditor found nothing in its log",
        tests=(
            at(
                "tests/unit/proxy/cli/test_verification.py",
                "test_a_backup_of_an_altered_store_is_refused_although_its_files_are_signed",
            ),
        ),
    ),
    Mutant(
        name="a digest is not verified on read",
        file="storage/tables/codec.py",
        old="    if value[1:_PAYLOAD_AT] != blake2b(",
        new="    if not blake2b(",
        invariant="a flipped bit is never read as a value",
        tests=(
            "tests/unit/storage/tables/test_codec.py",
            at(
                "tests/unit/storage/tables/test_lmdb_store.py",
                "test_a_flipped_bit_on_disk_is_never_read_as_a_value",
            ),
        ),
    ),
    Mutant(
        name="the map is writable",
        file="storage/tables/lmdb_store.py",
        old="                metasync=True,\n                writemap=False,\n",
        new="                metasync=True,\n                writemap=True,\n",
        invariant="an aborted write leaves no byte in the file",
        tests=(
            at(
                "tests/unit/storage/tables/test_lmdb_store.py",
                "test_settings_that_keep_aborted_writes_out_of_the_file",
            ),
            at(
                "tests/unit/storage/tables/test_lmdb_store.py",
                "test_an_aborted_draft_leaves_no_byte_in_the_file",
            ),
        ),
    ),
    Mutant(
        name="the store does not wait for the disk",
        file="storage/tables/lmdb_store.py",
        old="                sync=True,\n                metasync=True,\n",
        new="                sync=False,\n                metasync=True,\n",
        invariant="what was answered is durable",
        tests=(
            at(
                "tests/unit/storage/tables/test_lmdb_store.py",
                "test_settings_that_keep_aborted_writes_out_of_the_file",
            ),
        ),
    ),
    Mutant(
        name="staging is plain text",
        file=_SEALING,
        old="    return nonce + AESGCM(key).encrypt(nonce, data, name)\n",
        new="    return nonce + data\n",
        more=(
            (
                "return AESGCM(key).decrypt(view[:_NONCE_LEN], view[_NONCE_LEN:], name)",
                "return bytes(view[_NONCE_LEN:])",
            ),
        ),
        invariant="what is staged is unreadable in memory and on disk",
        tests=(
            at(
                "tests/unit/storage/staging/test_staging.py",
                "test_staged_bytes_read_back_and_are_unreadable_in_memory_and_on_disk",
            ),
        ),
        quick=True,
    ),
    Mutant(
        name="a ciphertext opens under another name",
        file=_SEALING,
        old="AESGCM(key).encrypt(nonce, data, name)",
        new="AESGCM(key).encrypt(nonce, data, None)",
        more=(("view[_NONCE_LEN:], name)", "view[_NONCE_LEN:], None)"),),
        invariant="a ciphertext belongs to the candidate and part it was sealed for",
        tests=("tests/unit/storage/staging/test_staging.py",),
    ),
    Mutant(
        name="the judge is fed from memory",
        file=_UNDECIDED,
        old="value = None if key is None else txn.get(name)\n",
        new="value = None if key is None else self._fed.get(candidate_id)\n",
        more=(
            (
                "            self._keys[one.candidate_id] = one.key\n",
                (
                    "            self._keys[one.candidate_id] = one.key\n"
                    "            self._fed[one.candidate_id] = one.data\n"
                ),
            ),
            (
                "        self.bytes_used = 0\n        # Where the environment is",
                (
                    "        self._fed: dict[CandidateId, bytes] = {}\n"
                    "        self.bytes_used = 0\n        # Where the environment is"
                ),
            ),
        ),
        invariant="what is judged is what the staging environment has now",
        tests=(_ALTERED,),
    ),
    Mutant(
        name="what does not open is judged all the same",
        file=_UNDECIDED,
        old="return None if data is None else unpacked(data)",
        new="return None if value is None else unpacked(data or bytes(value))",
        invariant="a value that does not open is decided by nobody",
        tests=(_ALTERED, _STAGING_TESTS),
    ),
    Mutant(
        name="a hold keeps the key that it was staged under",
        file=_STAGING,
        old="key = self._drawn[candidate_id] = new_key()",
        new="key = self._drawn[candidate_id] = self._undecided._keys[candidate_id]",
        invariant="a key that opened undecided candidates is never a file",
        tests=(
            at(
                _STAGING_TESTS,
                "test_a_held_candidate_is_under_another_key_than_it_was_staged_under",
            ),
            at(_STAGING_TESTS, "test_no_destroyed_key_opens_anything_in_any_file"),
        ),
    ),
    Mutant(
        name="an undecided candidate's key outlives its verdict",
        file=_ENGINE,
        old="        parts.staging.forget(change.judged)\n",
        new="",
        more=(
            (
                "            self.parts.staging.forget(one.candidate_id for one in batch)\n",
                "            pass\n",
            ),
        ),
        invariant="the key of what was judged is gone before the answer",
        tests=(at(_ALTERED, "test_no_key_of_a_decided_candidate_is_left"),),
    ),
    Mutant(
        name="what is staged names the nonce",
        file=_ENGINE,
        old="staged=staged, arrived=one)",
        new=("staged=staged, arrived=type(one).of(submission, self.parts.names))"),
        invariant="who alters staging cannot choose whose nonce is spent",
        tests=(
            at(
                "tests/fault/test_erasure.py",
                "test_altered_staging_is_a_digest_mismatch_and_neither_text_lands",
            ),
        ),
    ),
    Mutant(
        name="a candidate is judged under the id of a held one",
        file=_ENGINE,
        old="staged = None if one.candidate_id in held else contents.canonical",
        new="staged = contents.canonical",
        invariant="what a person was shown under an id is not exchanged",
        tests=(at(_HELD, "test_another_candidate_under_the_id_of_a_held_one_is_refused"),),
    ),
    Mutant(
        name="a staged value says how long the text is",
        file=_SEALING,
        old="PAD_LEN: Final = 256",
        new="PAD_LEN: Final = 1",
        invariant="the length of what is staged says little",
        tests=(
            at(
                _STAGING_TESTS,
                "test_what_is_seen_of_an_undecided_candidate_has_one_of_few_lengths",
            ),
        ),
    ),
    Mutant(
        name="staging keeps its pages",
        file=_UNDECIDED,
        old="        if self.bytes_used and not self._keys:\n",
        new="        if self.bytes_used < 0:\n",
        invariant="staging begins anew, on another file, when nobody waits",
        tests=(_UNDECIDED_TESTS,),
    ),
    Mutant(
        name="staging begins anew while somebody waits",
        file=_UNDECIDED,
        old="        if self.bytes_used and not self._keys:\n",
        new="        if self.bytes_used:\n",
        invariant="what waits stays where it is",
        tests=(_UNDECIDED_TESTS,),
    ),
    Mutant(
        name="the file of the fallback keeps its name",
        file=_UNDECIDED,
        old="            finally:\n                path.unlink(missing_ok=True)\n        except",
        new="            finally:\n                pass\n        except",
        invariant="undecided candidates are in no directory",
        tests=(_UNDECIDED_TESTS,),
    ),
    Mutant(
        name="another file is taken for the memfd",
        file=_UNDECIDED,
        old="            if not os.path.samestat(path.stat(), os.fstat(handle)):\n",
        new="            if path.is_dir():\n",
        invariant="the environment is on the file without a name, or it is not opened",
        tests=(_UNDECIDED_TESTS,),
    ),
    Mutant(
        name="a key file is unlinked as it is",
        file=_STAGING,
        old="            os.write(handle, bytes(KEY_LEN))\n",
        new="",
        invariant="a destroyed key's bytes are overwritten",
        tests=(
            at(
                "tests/unit/storage/staging/test_staging.py",
                "test_a_destroyed_key_file_is_overwritten_before_it_is_removed",
            ),
        ),
    ),
    Mutant(
        name="who refuses many is answered while the keys are on the disk",
        file="storage/write/writer.py",
        old="        await asyncio.to_thread(self._engine.erase_condemned)\n",
        new="",
        invariant="when a refusal is answered no key opens what was refused",
        tests=(
            at(
                _HELD,
                "test_of_many_the_first_are_denied_and_their_keys_are_erased_beside_the_writer",
            ),
        ),
    ),
    Mutant(
        name="a purge keeps the rows",
        file=_COMMIT,
        old="                draft.put(ROWS, ordinal_key(ordinal), left)\n",
        new="",
        invariant="a purge erases every row of a memory",
        tests=(at(_WRITES, "test_purged_memory_has_no_text_in_its_history"),),
    ),
    Mutant(
        name="a deleted memory is live",
        file=_COMMIT,
        old="if kind in {ChangeKind.DELETE, ChangeKind.PURGE}:\n            return",
        new="if kind is ChangeKind.PURGE:\n            return",
        invariant="a deleted memory is gone from every read",
        tests=(at(_WRITES, "test_deleted_memory_is_gone_from_every_read_but_its_history"),),
    ),
    Mutant(
        name="an older state of a memory is shown",
        file="storage/read/reader.py",
        old="if known is None or known.ordinal != ordinal or known.status",
        new="if known is None or known.status",
        invariant="a read shows the newest row of a memory and no other",
        tests=(
            at(
                "tests/property/test_store_interleaving.py",
                "test_a_read_shows_one_generation_at_every_point_of_a_commit",
            ),
        ),
    ),
    Mutant(
        name="an intercepted candidate leaves no leaf",
        file=_JUDGING,
        old="docket.intercepted_index = self._log_intercepted(change, docket, ruleset)",
        new="docket.intercepted_index = 0",
        invariant="both leaves of every decision are in the log",
        tests=(_WRITES, "tests/unit/storage/read/test_check.py"),
    ),
    Mutant(
        name="the commitment is not salted",
        file="storage/audit/leaves.py",
        old="    return hashlib.sha256(salt + digest).digest()\n",
        new="    return hashlib.sha256(digest).digest()\n",
        invariant="a log cannot be searched for guessed content",
        tests=("tests/unit/storage/audit/test_leaves.py",),
    ),
    Mutant(
        name="a segment file's checksum is not compared",
        file="storage/derived/vectors/segment_files.py",
        old="if _sha256(names) != header.ordinals_sha256 or _sha256(rows) != header",
        new="if not names or header.dimension != header.dimension or not header",
        invariant="a damaged segment is rebuilt, never searched",
        tests=("tests/unit/storage/derived/vectors/test_segment_files.py",),
    ),
    Mutant(
        name="an older segment file is loaded",
        file="storage/derived/vectors/segment_files.py",
        old="        _check_stored(ordinals, stored)\n",
        new="",
        invariant="a purged vector does not come back from a file",
        tests=("tests/unit/storage/derived/vectors/test_segment_files.py",),
    ),
)
