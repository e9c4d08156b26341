"""Draws pages from templates; text of memories is drawn so that a person sees each character."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from policy.text.skeleton import escaped, is_plain
from policy.verdict import Reason
from proxy.seams.observations import CLASS_WORDS, WHY

if TYPE_CHECKING:
    from jinja2 import Environment

_DIFF_LINES_MAX: Final = 1_000
_MINUTE_MS: Final = 60_000


def shown(text: str, fired: str | None = None) -> Markup:
    """The text as HTML: plain characters as they are, each other one as its number.

    The words `fired` are marked, where the text contains them. The text is isolated, so that its
    direction changes nothing around it.
    """
    before, found, after = text.partition(fired) if fired else (text, "", "")
    said = _escaped(before)
    if found:
        said += Markup('<mark class="fired">{}</mark>{}').format(_escaped(found), _escaped(after))
    return Markup('<bdi dir="auto">{}</bdi>').format(said)


def visible(text: str) -> str:
    """The text with each character that is not plain as its number, for the script of a page."""
    return "".join(one if is_plain(one) else escaped(one) for one in text)


def _escaped(text: str) -> Markup:
    parts = (
        Markup("{}").format("".join(chars))
        if plain
        else Markup("<mark>{}</mark>").format("".join(map(escaped, chars)))
        for plain, chars in groupby(text, is_plain)
    )
    return Markup("").join(parts)


def changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """The lines of a diff, each with its sign: "-" goes, "+" comes, " " stays.

    Texts of very many lines are not compared: all of one goes, and all of the other comes.
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _DIFF_LINES_MAX:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    # Lines are compared whole. `difflib.ndiff` also looks for likeness within lines, which takes
    # minutes for two texts of a hundred lines that an agent chose.
    for kind, begins, ends, begins_new, ends_new in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            yield from ((" ", line) for line in old[begins:ends])
            continue
        yield from (("-", line) for line in old[begins:ends])
        yield from (("+", line) for line in new[begins_new:ends_new])


def moment(at_ms: int) -> Markup:
    """A time as an element that a program can read too."""
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    text = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), text)


def duration(took_ms: int) -> str:
    """A length of time in the largest unit that fits."""
    minutes = max(0, took_ms) // _MINUTE_MS
    for size, unit in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            count = minutes // size
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"


def because(reason: Reason | str) -> str:
    """The reason of a verdict, or its code, in the words of the reader of a page."""
    return WHY[Reason(reason)]


def environment() -> Environment:
    """The templates of this package, with escaping on, where an unknown name is an error."""
    # The import is local, because few sidecars draw a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=PackageLoader("proxy", "console/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"] = shown
    # Jinja2's own names are of fewer types than it takes.
    names: dict[str, object] = vars(made)["globals"]
    names |= {
        "because": because,
        "changes": changes,
        "class_words": {one.value: words for one, words in CLASS_WORDS.items()},
        "duration": duration,
        "moment": moment,
    }
    return made


class Drawing:
    """Renders templates, each compiled once."""

    def __init__(self) -> None:
        self._environment: Environment | None = None

    def page(self, template: str, values: Mapping[str, object]) -> bytes:
        """The rendered page; a lone surrogate is drawn as a question mark."""
        self._environment = self._environment or environment()
        text = self._environment.get_template(template).render(values)
        return text.encode("utf-8", "replace")
