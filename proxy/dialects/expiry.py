"""The checks of expiry dates, which all dialects share.

All dialects accept the same spellings, so that a date that was stored through one API can be
returned by any other.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from proxy.seams.faults import MalformedRequest

_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]"
RFC3339_PATTERN: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    rf"(T{_CLOCK}:[0-5][0-9](\.[0-9]{{1,9}})?(Z|[+-]{_CLOCK}))?$"
)
EXPIRY_LEN_MAX: Final = 40
_MOMENT: Final = re.compile(RFC3339_PATTERN, re.ASCII)


def expiry(text: str, where: str) -> str:
    """Check an RFC 3339 date or date-time, and return the text unchanged.

    A date expires at the end of its day. That works only with one spelling per date, so the basic
    form (20300131) and week dates are refused, though Python reads them.

    Raises:
        MalformedRequest: The text is not of this form, or names no real day or time (such as 30
            February).
    """
    if len(text) > EXPIRY_LEN_MAX or _MOMENT.fullmatch(text) is None:
        raise MalformedRequest(f"{where}: not an RFC 3339 date or date-time")
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise MalformedRequest(f"{where}: no such day or time") from None
    return text


def expiry_or_utc(text: str, where: str) -> str:
    """Check a date like `expiry`; a date-time without an offset counts as UTC and gets a `Z`.

    Raises:
        MalformedRequest: `expiry` refuses the date.
    """
    return expiry(f"{text}Z" if _MOMENT.fullmatch(f"{text}Z") else text, where)
