"""A model request as it would be if reads no longer showed some of the memories in it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from policy.model import Memory
from policy.verdict import Reason
from policy.withheld.refused_texts import StoredText
from policy.withheld.words import WordHasher, prints_of
from proxy.dialects.model.withheld import LeftUnchanged, sieved_body
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.observations import WITHDRAWN
from proxy.withhold.request_withholding import RequestWithholding
from proxy.withhold.state import NoticeParts, WithheldTexts
from proxy.withhold.texts import strings_of
from proxy.withhold.withholding import WITHHOLD

_KEY_LEN: Final = 32


def without(
    body: dict[str, Json],
    api: str,
    leave: LeftUnchanged,
    *,
    out: Sequence[Memory],
    present: Sequence[Memory],
) -> dict[str, Json]:
    """The body without the words of the memories `out`, except words that `present` ones also have.

    Withholding makes the same of the next request once the memories `out` are hidden. `leave` names
    what stays unchanged. Nothing is recorded. Any thread; the call may take milliseconds.
    """
    printer, kept = WordHasher(secrets.token_bytes(_KEY_LEN)), WithheldTexts("")
    for one in out:
        told = NoticeParts(WITHDRAWN, Reason.GATE_UNAVAILABLE, one.memory_class)
        prints = prints_of(printer, (one.text,), strings_of(one.metadata_json))
        kept.withdraw(one.memory_id, told, prints)
    for one in present:
        stored = StoredText(one.memory_id, 0, proven=True)
        strings = strings_of(one.metadata_json)
        kept.withheld.show(stored, printer.numbers(one.text), *printer.each(strings))
    for text in leave.stands:
        kept.withheld.open(printer.numbers(text))
    return WITHHOLD.get(api, sieved_body)(body, leave, RequestWithholding(kept, printer))
