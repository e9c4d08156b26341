"""Faults in how a memory is found by a key of the client's own, and in LangGraph's store API."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_TOLD: Final = at(
    "tests/unit/proxy/fronts/test_told_credential.py",
    "test_every_spelling_of_the_sidecars_credential_is_known",
)

_ITEMS: Final = "proxy/dialects/langgraph/items.py"
_ROUTES: Final = "tests/unit/proxy/dialects/langgraph/test_store_routes.py"
_ALL: Final = at(
    _ROUTES, "test_a_put_is_filed_by_namespace_and_key_and_every_string_of_it_is_judged"
)
_KEYS: Final = at(
    "tests/unit/storage/tables/test_keys.py",
    "test_the_id_of_a_clients_own_key_is_a_uuid_of_tenant_and_key_that_needs_the_secret",
)

OWN_KEYS: Final = (
    Mutant(
        name="the sidecar's credential passes in base64",
        file="proxy/fronts/told_credential.py",
        old="*{core for one in secrets for core in _cores(one)}",
        new="*secrets",
        invariant="the sidecar's credential is in no answer",
        tests=(_TOLD,),
    ),
    Mutant(
        name="the sidecar's credential passes in percents",
        file="proxy/fronts/told_credential.py",
        old='    if b"%" in text:\n',
        new='    if b"%%" in text:\n',
        invariant="the sidecar's credential is in no answer",
        tests=(_TOLD,),
    ),
    Mutant(
        name="an own key is that of every tenant",
        file="storage/tables/keys.py",
        old="        parts = (tenant.encode(), key.encode(),",
        new="        parts = (key.encode(),",
        invariant="the same key in another tenant is another memory",
        tests=(_KEYS,),
    ),
    Mutant(
        name="an own key is forgotten on its way to the gate",
        file="proxy/intercept/operations.py",
        old="        if proposal.own_key is not None:\n",
        new="        if proposal.own_key is not None and proposal.text is None:\n",
        invariant="two creations under one key of a client's own are one memory",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_operations.py",
                "test_what_a_client_files_under_its_own_key_is_one_memory_of_its_tenant",
            ),
        ),
    ),
    Mutant(
        name="a time to live is forgotten",
        file="proxy/intercept/operations.py",
        old="        if proposal.ttl_ms is None:\n",
        new="        if proposal.ttl_ms:\n",
        invariant="a memory with a time to live ends by itself",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_operations.py",
                "test_a_memory_with_a_time_to_live_ends_by_itself",
            ),
        ),
    ),
    Mutant(
        name="a name that only begins alike counts as below another",
        file="policy/query.py",
        old='    return value == root or value.startswith(f"{root}.")\n',
        new="    return value.startswith(root)\n",
        invariant="a namespace begins with whole labels",
        tests=(
            at(_ROUTES, "test_a_search_asks_below_a_prefix_and_whole_labels_count"),
            at(
                "tests/unit/storage/read/test_reader.py",
                "test_pages_and_searches_show_exactly_what_matches",
            ),
        ),
    ),
    Mutant(
        name="names below another are not found",
        file="storage/derived/catalogue.py",
        old="            if owner == tenant and named == kind and is_under(name, root)\n",
        new="            if named == kind and is_under(name, root) and root == name\n",
        invariant="a filter by namespace finds every namespace below",
        tests=(
            at(
                "tests/unit/storage/read/test_reader.py",
                "test_pages_and_searches_show_exactly_what_matches",
            ),
        ),
    ),
    Mutant(
        name="a replaced memory begins anew",
        file="storage/write/commit.py",
        old="        goes_on = self.stored if update or self._replaces() else None\n",
        new="        goes_on = self.stored if update else None\n",
        invariant="what replaces a live memory keeps the time at which it began",
        tests=(
            at(
                "tests/unit/storage/write/test_writes.py",
                "test_a_creation_under_a_live_id_replaces_the_memory_and_keeps_its_beginning",
            ),
        ),
    ),
    Mutant(
        name="only the first string of an item is its text",
        file=_ITEMS,
        old='    text = "\\n".join(_strings(value)) or',
        new='    text = "\\n".join(_strings(value)[:1]) or',
        invariant="every string of an item is judged, however deep it is",
        tests=(_ALL,),
    ),
    Mutant(
        name="an item's value is not kept",
        file=_ITEMS,
        old='"namespace": list(namespace), VALUE: value}',
        new='"namespace": list(namespace), VALUE: {}}',
        invariant="a read returns the JSON that was put",
        tests=(_ALL,),
    ),
    Mutant(
        name="labels and key of an item run into one another",
        file=_ITEMS,
        old="    return canonical_json([ROOT, list(namespace), key])\n",
        new='    return ".".join((ROOT, *namespace, key))\n',
        invariant="two items have two keys",
        tests=(_ALL,),
    ),
    Mutant(
        name="a memory of another API is an item",
        file=_ITEMS,
        old="    if memory.target != TARGET or memory.metadata_json is None:\n",
        new="    if memory.metadata_json is None:\n",
        invariant="what another API wrote is no item",
        tests=(at(_ROUTES, "test_what_is_no_item_of_this_api_is_not_shown_as_one"),),
    ),
    Mutant(
        name="an unknown operator of a filter is passed over",
        file="proxy/dialects/langgraph/value_filters.py",
        old="            else:\n                raise MalformedRequest",
        new="            elif tests:\n                raise MalformedRequest",
        invariant="a filter is carried out exactly, or refused",
        tests=(
            at(
                _ROUTES,
                "test_a_filter_that_cannot_be_carried_out_is_refused_and_not_passed_over",
            ),
        ),
    ),
    Mutant(
        name="a held put is answered like a stored one",
        file="proxy/dialects/langgraph/store_routes.py",
        old='    if item.decision in {"admit", "missing"}:\n',
        new='    if item.decision in {"admit", "missing", "hold"}:\n',
        invariant="a client hears of every put that was not stored",
        tests=(
            at(
                _ROUTES,
                "test_a_change_is_answered_by_its_status_and_a_refused_one_with_the_observation",
            ),
        ),
    ),
)
