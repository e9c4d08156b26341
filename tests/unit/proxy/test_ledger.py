"""The ledger: whose text it was, bounded, and honest about what it lost."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from policy.model import PrincipalId, SourceKind
from proxy.guard import Segment
from proxy.ledger import PRINCIPALS_MAX, PRINTS_MAX, SEGMENTS_MAX, Ledger

ADA, GRACE = PrincipalId("ada"), PrincipalId("grace")
NOTE = "Customers of the harbour pay a lower rate for the archive"


def segment(*texts: str, tool: str = "search") -> Segment:
    return Segment(server="web", tool=tool, call_id="call-1", texts=texts)


def test_the_segment_is_named_that_a_text_came_from() -> None:
    ledger = Ledger()
    ledger.saw(ADA, segment("something about rivers and their names", NOTE, tool="fetch"))
    (origin,) = ledger.culprits(ADA, NOTE)
    assert (origin.server, origin.tool, origin.call_id) == ("web", "fetch", "call-1")
    assert origin.kind is SourceKind.TOOL_RESULT
    assert ledger.culprits(GRACE, NOTE) == ()
    assert ledger.culprits(ADA, "Ada sings in a choir on Mondays") == ()


def test_a_note_at_any_place_of_a_long_page_is_found() -> None:
    page = " ".join(f"filler{number}" for number in range(9_000))
    for at in (0, 8_100, 50_000, len(page)):
        ledger = Ledger()
        ledger.saw(ADA, segment(f"{page[:at]} {NOTE} {page[at:]}"))
        assert ledger.culprits(ADA, NOTE), at


def test_what_is_pushed_out_is_counted() -> None:
    ledger = Ledger()
    ledger.saw(ADA, segment(NOTE))
    for number in range(SEGMENTS_MAX):
        ledger.saw(ADA, segment(f"page {number} about something else"))
    assert ledger.lost_count == 1
    assert ledger.culprits(ADA, NOTE) == ()


def test_the_prints_of_all_and_the_number_of_principals_are_bounded() -> None:
    ledger = Ledger()
    for number in range(PRINCIPALS_MAX + 1):
        ledger.saw(PrincipalId(f"p{number}"), segment(NOTE))
    assert len(ledger._rings) == PRINCIPALS_MAX
    assert PrincipalId("p0") not in ledger._rings
    assert ledger.lost_count == 1
    for number in range(60):
        page = " ".join(f"w{number}x{word}" for word in range(6_000))
        ledger.saw(ADA, segment(page))
    assert ledger._prints_count <= PRINTS_MAX
    assert list(ledger._rings) == [ADA], "whoever was quiet longest pays first"
    kept = sum(one.prints_count for one in ledger._rings[ADA].kept)
    assert kept == ledger._prints_count


def test_a_text_that_has_no_words_does_not_stop_the_ledger() -> None:
    ledger = Ledger()
    ledger.saw(ADA, segment("", "...", "\n"))
    assert ledger.culprits(ADA, "...") == ()
    assert ledger.culprits(ADA, "") == ()
