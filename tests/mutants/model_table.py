"""Faults in the model front: keys, routes, and what goes upstream."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_FRONT: Final = "tests/integration/test_model_front.py"
_COUPLING: Final = "tests/integration/test_model_coupling.py"
_CREDENTIALS: Final = "tests/unit/proxy/model/test_credentials.py"
_EDITORS: Final = "tests/unit/proxy/dialects/model/test_editors.py"

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
)
