"""Faults in the model front: keys, routes, and what goes upstream."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_FRONT: Final = "tests/integration/test_model_front.py"
_COUPLING: Final = "tests/integration/test_model_coupling.py"
_CREDENTIALS: Final = "tests/unit/proxy/model/test_credentials.py"
_EDITORS: Final = "tests/unit/proxy/dialects/model/test_editors.py"
_SETTLED: Final = "tests/unit/proxy/model/test_settled.py"
_RECURRING: Final = "tests/unit/proxy/model/test_recurring.py"

MODEL: Final = (
    Mutant(
        name="a key of ours stays in its header",
        file="proxy/model/credentials.py",
        old="        del headers[name]\n",
        new="",
        invariant="no key of ours goes upstream",
        tests=(at(_CREDENTIALS, "test_no_key_of_ours_goes_upstream_from_any_place"),),
    ),
    Mutant(
        name="hosted memory is any other route",
        file="proxy/model/routes.py",
        old="    if method not in _SAFE and any(part in _HOSTED for part in parts):\n",
        new="    if method not in _SAFE and not parts:\n",
        invariant="a write on the provider's side is an unknown write",
        tests=(at(_FRONT, "test_other_routes_pass_untouched_and_hosted_memory_does_not"),),
    ),
    Mutant(
        name="the request goes upstream as it came",
        file="proxy/model/coupled.py",
        old="(prepared, body=body, session=entered.session)\n",
        new="(prepared, session=entered.session)\n",
        invariant="no later model request carries what was refused",
        tests=(at(_COUPLING, "test_what_was_refused_is_in_no_later_request_and_in_no_reply"),),
    ),
    Mutant(
        name="another principal goes on from a response",
        file="proxy/model/histories.py",
        old="        kept = self._kept.get(principal_id, OrderedDict())\n",
        new="        kept = next(iter(self._kept.values()), OrderedDict[str, _Kept]())\n",
        invariant="what was said is its principal's alone",
        tests=(at(_FRONT, "test_a_known_response_is_gone_on_from_with_its_whole_history"),),
    ),
    Mutant(
        name="a call that tells late what it is passes",
        file="proxy/dialects/model/responses_stream.py",
        old="            self._held.setdefault(index, [])\n",
        new="            pass\n",
        invariant="no call reaches the agent unjudged",
        tests=(at(_EDITORS, "test_a_call_that_only_the_end_of_its_item_tells_is_judged"),),
    ),
    Mutant(
        name="what held nothing once holds nothing for ever",
        file="proxy/model/settled.py",
        old="kept[0] == stamp and kept[1] is read",
        new="kept[1] is read",
        invariant="nothing that was refused goes upstream",
        tests=(at(_SETTLED, "test_an_old_turn_is_looked_at_again_when_something_is_refused"),),
    ),
    Mutant(
        name="what one person typed is hers wherever it comes from",
        file="proxy/model/settled.py",
        old="kept[0] == stamp and kept[1] is read",
        new="kept[0] == stamp",
        invariant="only what a person typed is left alone",
        tests=(at(_SETTLED, "test_what_she_typed_is_looked_at_where_it_is_another_ones_words"),),
    ),
    Mutant(
        name="a settled thought stays behind a turn that changed",
        file="proxy/dialects/model/withheld_anthropic.py",
        old="        if at in leave.settled and not (loosened and binds):\n",
        new="        if at in leave.settled:\n",
        invariant="a signed block goes with what it is bound to",
        tests=(
            at(
                _SETTLED,
                "test_a_thought_behind_a_turn_that_changed_is_left_out_though_it_is_settled",
            ),
        ),
    ),
    Mutant(
        name="a principal is given another one's elements",
        file="proxy/model/recurring.py",
        old="        element = self._old.get(principal_id, {}).get(name)\n",
        new="        element = next((a[name] for a in self._young.values() if name in a), None)\n",
        invariant="what was said is its principal's alone",
        tests=(at(_RECURRING, "test_a_turn_that_came_before_is_the_same_object"),),
    ),
    Mutant(
        name="a tool is where it stood first",
        file="proxy/model/recurring.py",
        old="        name = (read, args)\n",
        new="        name = (read, ())\n",
        invariant="a tool is left alone only as it was approved",
        tests=(at(_RECURRING, "test_a_tool_at_another_place_is_read_at_that_place"),),
    ),
)
