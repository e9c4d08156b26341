"""Each page and each act of the console has a call of the operator API and a command beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from policy.model import OperatorScope
from proxy.admin.wire.operator_routes import ROUTES
from proxy.cli.parser import commands
from proxy.console.drawing import environment
from proxy.console.page import Page
from proxy.console.registry import PAGES

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
    # The command of the page of what happens now is made beside it.
    assert without_twin([page for page in PAGES if page.template != "/now"]) == []
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
