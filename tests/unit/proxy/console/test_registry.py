"""Each page and each act of the console has a call of the operator API and a command beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import proxy.console
from policy.model import OperatorScope
from proxy.admin.wire.operator_routes import API, ROUTES
from proxy.cli.parser import commands
from proxy.console.console import SIGN_IN, SIGN_OUT, console_routes
from proxy.console.drawing import environment
from proxy.console.page import Page
from proxy.console.registry import PAGES

HERE = Path(proxy.console.__file__).parent
FILES = sorted(path for name in ("static", "templates") for path in (HERE / name).iterdir())
FAR = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.|@import", re.IGNORECASE)
COMMANDS = frozenset(" ".join(one.words) for one in commands())


def without_twin(pages: Sequence[Page]) -> list[str]:
    """The pages without a call of the API, or without a command, that exists."""
    return [
        f"{page.method} {page.template}"
        for page in pages
        if not page.twins
        or not set(page.twins) <= set(ROUTES)
        or not page.commands
        or not set(page.commands) <= COMMANDS
    ]


def test_no_page_and_no_act_is_in_the_console_alone() -> None:
    assert without_twin(PAGES) == []
    # Control: a page whose command does not exist is found.
    some = PAGES[0]
    alone = Page(template="/x", handler=some.handler, twins=some.twins, commands=("no such",))
    assert without_twin((alone,)) == ["GET /x"]


def test_each_page_of_the_issue_is_in_the_navigation() -> None:
    assert [page.nav for page in PAGES if page.nav] == [
        *("Now", "Review", "Memory", "Lineage", "Sessions", "Trust", "Incidents"),
        *("Policy", "Keys", "Servers", "Audit"),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.method} {page.template}")
def test_a_page_asks_for_no_lower_scope_than_its_calls(page: Page) -> None:
    # A page may leave out a call that its visitor has no right to.
    assert any(page.least.includes(one.least) for one in page.twins)
    if page.destroys:
        assert page.least is OperatorScope.OPERATE


def test_every_template_compiles_and_draws_no_text_outside_of_the_filter() -> None:
    made = environment()
    for name in made.list_templates():
        source, _, _ = made.loader.get_source(made, name)  # type: ignore[union-attr]
        made.get_template(name)
        for part in re.findall(r"\{\{(.*?)\}\}", source, re.DOTALL):
            if re.search(
                r"\.(?:text|metadata_json|query|statement)\b(?!\s*(?:\[|\|\s*length))", part
            ):
                assert "shown" in part or "beginning(" in part, (name, part)
            assert "| safe" not in part, (name, part)


def test_no_two_pages_have_one_address_and_none_is_the_api_s() -> None:
    assert max(Counter((page.method, page.counted_as) for page in PAGES).values()) == 1
    assert not any(route.startswith((API, "/healthz", "/readyz")) for route in console_routes())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    assert FAR.findall(path.read_text("utf-8")) == []


def test_control_what_is_elsewhere_is_found() -> None:
    assert FAR.findall('<script src="https://cdn.example/x.js"></script> @import "x"')


def test_each_form_that_is_posted_has_its_token() -> None:
    for path in FILES:
        for form in re.findall(
            r'<form method="post".*?</form>', path.read_text("utf-8"), re.DOTALL
        ):
            free = any(f"url('{one}')" in form for one in (SIGN_IN, SIGN_OUT))
            assert ("{{ token(" in form) is not free, path.name


def test_the_script_is_short() -> None:
    assert len((HERE / "static/now.js").read_text().splitlines()) <= 40
