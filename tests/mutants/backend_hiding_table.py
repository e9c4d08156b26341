"""Faults of what servers behind are told about quarantined memories."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_MERGED: Final = "tests/integration/test_backend_late.py"

_HIDING: Final = "proxy/fronts/backend_hiding.py"
_RECORDS: Final = "storage/write/hidden_items.py"
_DUE: Final = "storage/behind/hidden.py"
_WHOLE: Final = "tests/integration/test_backend_quarantine.py"
_STORE: Final = "tests/unit/storage/behind/test_hidden.py"
_TAGGED: Final = at(_WHOLE, "test_a_tag_stands_on_the_server_from_the_quarantine_to_its_end")
_LOST_STATE: Final = at(
    _WHOLE, "test_what_was_quarantined_stays_away_where_the_sidecars_state_is_lost"
)
_ONLY_A_READ: Final = at(
    _WHOLE, "test_only_a_read_of_the_record_says_that_it_is_hidden_or_shown_again"
)
_UNRECORDED: Final = at(
    _WHOLE, "test_what_the_server_did_and_nobody_recorded_is_undone_after_a_restart"
)
_ASKED_AGAIN: Final = at(
    _WHOLE, "test_a_lost_answer_is_asked_for_again_and_nothing_is_lost_of_the_record"
)
_PURGED: Final = at(_STORE, "test_nothing_is_kept_of_a_purged_memory_and_what_hides_it_stays")
_NEWEST: Final = at(
    _STORE, "test_the_newest_memory_under_a_key_decides_and_none_while_one_is_on_its_way"
)
_DELETED: Final = at(
    _STORE, "test_what_its_server_deleted_is_not_put_back_by_the_end_of_its_quarantine"
)

BACKEND_HIDING: Final = (
    Mutant(
        name="an update on its way brings back what was purged meanwhile",
        file="storage/tables/closed_keys.py",
        old="    if ordinal is None or not until or ordinal_key(ordinal) >= until:\n",
        new="    if ordinal is None or not until or ordinal_key(ordinal):\n",
        invariant="what was erased here and stands on its server is shown to nobody",
        tests=(
            at(
                "tests/unit/storage/behind/test_closed_keys.py",
                "test_an_update_that_was_judged_beside_what_was_purged_meanwhile_leaves_its_key_"
                "closed",
            ),
        ),
    ),
    Mutant(
        name="an item is shown with words that were not judged with it",
        file="proxy/guard/keyed.py",
        old="            gone = gone or other\n",
        new="",
        invariant="what is read is what was judged",
        tests=(
            at(_MERGED, "test_chromas_merge_of_a_late_write_and_a_later_one_is_shown_to_nobody"),
            at(_MERGED, "test_mem0s_merge_of_a_late_write_and_a_later_one_is_shown_to_nobody"),
            at(_MERGED, "test_an_item_that_was_changed_past_the_gate_is_shown_to_nobody"),
        ),
    ),
    Mutant(
        name="words of an older memory count as judged with the newest one",
        file="proxy/guard/sieve.py",
        old="        said = judged[max(judged)]\n",
        new="        said = judged[min(judged)]\n",
        invariant="what is read is what was judged",
        tests=(
            at(_MERGED, "test_chromas_merge_of_a_late_write_and_a_later_one_is_shown_to_nobody"),
        ),
    ),
    Mutant(
        name="a text that the server makes hides its memory",
        file="proxy/seams/http_backend.py",
        old="one for one in self.strings if one not in self.made_there",
        new="one for one in self.strings",
        invariant="what the server makes itself of a memory is no other memory",
        tests=(at(_MERGED, "test_mem0s_merge_of_a_late_write_and_a_later_one_is_shown_to_nobody"),),
    ),
    Mutant(
        name="a read has no filter for tags",
        file="proxy/fronts/backend_tags.py",
        old=" hiding.untagged(outgoing) if tags or",
        new=" outgoing if tags or",
        invariant="a tagged item takes no place among those that a read asks for",
        tests=(_TAGGED,),
    ),
    Mutant(
        name="a tag hides in no other mode than its own",
        file="proxy/fronts/backend_tags.py",
        old=" if tags or await self._has_tag(question) else outgoing\n",
        new=" if tags else outgoing\n",
        invariant="a tagged item is shown to no agent in any mode",
        tests=(at(_WHOLE, "test_a_tag_that_nobody_remembers_hides_in_every_mode"),),
    ),
    Mutant(
        name="a tag counts for nothing where the store knows nothing",
        file="proxy/guard/keyed.py",
        old=" or one.is_tagged or",
        new=" or",
        invariant="a tagged item is there for no agent, whatever the store knows",
        tests=(_LOST_STATE,),
    ),
    Mutant(
        name="an agent writes the field of the sidecar",
        file="proxy/backends/chroma/records.py",
        old="    if any(OWN_FIELD in one for one in columns.metadatas or () if one is not None):\n",
        new="    if any(OWN_FIELD == one for one in columns.metadatas or () if one is not None):\n",
        invariant="no agent writes the field of the sidecar",
        tests=(_LOST_STATE,),
    ),
    Mutant(
        name="an agent filters by the field of the sidecar",
        file="proxy/backends/chroma/filters.py",
        old="            elif name == OWN_FIELD:\n",
        new="            elif name == OWN_FIELD and not value:\n",
        invariant="no agent filters by the field of the sidecar",
        tests=(_LOST_STATE,),
    ),
    Mutant(
        name="a tag is sent before anybody remembers it",
        file=_HIDING,
        old="            await self._keys.hidden(name, due, nothing, done=False)\n",
        new="            pass\n",
        invariant="what a server is asked is recorded before it is asked",
        tests=(_UNRECORDED,),
    ),
    Mutant(
        name="what was due before the turn is done in it",
        file=_HIDING,
        old=" await self._keys.hiding_due(settings.name, settings.quarantine, only)\n",
        new=" group if only else ()\n",
        invariant="what a server is asked is due when it is asked",
        tests=(
            at(
                _WHOLE,
                "test_what_was_undone_while_the_place_was_taken_is_not_done_any_more",
            ),
        ),
    ),
    Mutant(
        name="an item is removed before it is kept",
        file=_HIDING,
        old="        await self._keys.hidden(name, due, kept, done=False)\n",
        new="",
        invariant="what a server is asked is recorded before it is asked",
        tests=(_UNRECORDED,),
    ),
    Mutant(
        name="what is gone on the server is forgotten here",
        file=_HIDING,
        old="        kept = tuple(new or one.kept for new, one in zip(stands, due, strict=True))\n",
        new="        kept = stands\n",
        invariant="a deletion that is asked for twice loses nothing",
        tests=(_ASKED_AGAIN,),
    ),
    Mutant(
        name="what is put back replaces what stands there by now",
        file=_HIDING,
        old=" if one.kept and not new]",
        new=" if one.kept]",
        invariant="a removed item comes back where nothing newer stands",
        tests=(
            at(
                _WHOLE,
                "test_a_removed_item_of_langgraphs_server_is_put_back_and_a_newer_one_is_left",
            ),
        ),
    ),
    Mutant(
        name="what a server was asked counts as done without a look",
        file=_HIDING,
        old=" if pair[0].item.key not in stays]\n",
        new="]\n",
        invariant="an act is done once a read of the same item says so",
        tests=(_ONLY_A_READ,),
    ),
    Mutant(
        name="what answers that it knows no such place says that nothing stands there",
        file=_HIDING,
        old="        if reply.status not in _DONE:\n",
        new="        if reply.status not in (*_DONE, 404):\n",
        invariant="an act is done once a read of the same item says so",
        tests=(_ONLY_A_READ,),
    ),
    Mutant(
        name="what cannot be hidden keeps the rest waiting",
        file=_HIDING,
        old="            if self._round < until:\n",
        new="            if self._paused:\n",
        invariant="each act is tried by itself",
        tests=(at(_WHOLE, "test_what_cannot_be_hidden_keeps_nothing_else_waiting"),),
    ),
    Mutant(
        name="a purge keeps what was removed from the server",
        file="storage/write/commit.py",
        old="                forget_kept(self.change, row.keyed)\n",
        new="",
        invariant="a purged memory is nowhere",
        tests=(_PURGED,),
    ),
    Mutant(
        name="an item that was read before a purge is kept after it",
        file=_RECORDS,
        old="    if record.kept and not is_filed(draft, keyed):\n",
        new='    if record.kept and is_filed(draft, b""):\n',
        invariant="a purged memory is nowhere",
        tests=(_PURGED,),
    ),
    Mutant(
        name="an item is hidden or shown while a change of it is on its way",
        file=_DUE,
        old="        if newest is None or newest.status is MemoryStatus.FORWARDING:\n",
        new="        if newest is None:\n",
        invariant="the newest memory under a key decides, once it is settled",
        tests=(_NEWEST,),
    ),
    Mutant(
        name="a change that takes the place of a hidden memory makes nothing due",
        file="storage/behind/intents.py",
        old=" or change.draft.has(HIDDEN_THERE, row.keyed)\n",
        new="\n",
        invariant="whatever can make an act due moves the counter",
        tests=(_NEWEST,),
    ),
    Mutant(
        name="a deletion leaves what is under quarantine to be put back",
        file="storage/behind/intents.py",
        old="            ending.add(MemoryStatus.QUARANTINED)\n",
        new="            pass\n",
        invariant="what a server was told to delete comes back by no quarantine's end",
        tests=(_DELETED,),
    ),
    Mutant(
        name="a deletion leaves what was kept of a removed item",
        file="storage/behind/intents.py",
        old="        if whole and not hidden_later:\n",
        new="        if not whole and not hidden_later:\n",
        invariant="of an item that its server deleted nothing is kept to put it back",
        tests=(_DELETED,),
    ),
    Mutant(
        name="the name of a place is an order to who is shown it",
        file="proxy/backends/kept_request.py",
        old="    return bool(telling_names(names)) or spell_order(names)\n",
        new="    return bool(telling_names(names))\n",
        invariant="no name that is made without a verdict is an order",
        tests=(
            at(
                "tests/integration/test_backend_names.py", "test_no_server_is_made_to_list_an_order"
            ),
            at(
                "tests/unit/proxy/backends/chroma/test_collections.py",
                "test_words_that_nobody_judged_make_no_collection",
            ),
        ),
    ),
    Mutant(
        name="what an agent asks for takes memory that nobody counts",
        file="proxy/fronts/answers_before.py",
        old="    return _ENTRY_SIZE + sum(map(getsizeof, kept))\n",
        new="    return len(found.reply.body) + len(kept)\n",
        invariant="answers that were looked through take a bounded part of the memory",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_answers_before.py",
                "test_answers_that_say_nothing_take_no_more_memory_than_others",
            ),
        ),
    ),
)
