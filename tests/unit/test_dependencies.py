"""Each dependency has a lower and an upper bound, and what is locked and installed is inside them.

That the lower bounds work together is shown by `tests/integration/test_lowest_versions.py`.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from proxy.transport.connection import AIOHTTP_BELOW, AIOHTTP_FROM

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED: Final[dict[str, list[str]]] = {
    "": PROJECT["dependencies"],
    **PROJECT["optional-dependencies"],
}
REQUIREMENTS: Final = [one for declared in DECLARED.values() for one in declared]
PINS: Final = {
    canonicalize_name(name): Version(version)
    for lock in (
        "requirements.lock",
        "requirements-minilm.lock",
        "requirements-postgres.lock",
        "requirements-sentry.lock",
    )
    for name, version in re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE
    )
}
# The server is built on what aiohttp keeps to itself, and that changes with its minor versions.
MINOR_BREAKS: Final = {"aiohttp"}


def ceiling(name: str, pin: Version) -> str:
    """The next version that may break its users: a major one, and below 1 a minor one."""
    if name in MINOR_BREAKS or pin.major == 0:
        return f"{pin.major}.{pin.minor + 1}"
    return str(pin.major + 1)


def fault(written: str) -> str:
    """What is wrong with the bounds of one requirement; nothing where it is empty."""
    requirement = Requirement(written)
    name = canonicalize_name(requirement.name)
    bounds = {one.operator: one.version for one in requirement.specifier}
    if len(requirement.specifier) != 2 or set(bounds) != {">=", "<"}:
        return "not one lower and one upper bound"
    if name not in PINS:
        return "not locked"
    if not requirement.specifier.contains(PINS[name]):
        return f"locked outside of its bounds, at {PINS[name]}"
    wanted = ceiling(name, PINS[name])
    return "" if bounds["<"] == wanted else f"the upper bound is not {wanted}"


@pytest.mark.parametrize("written", REQUIREMENTS)
def test_each_dependency_is_bounded_on_both_sides_around_its_pin(written: str) -> None:
    assert fault(written) == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("aiohttp", "not one lower and one upper bound"),
        ("aiohttp>=3.14.4", "not one lower and one upper bound"),
        ("aiohttp<3.15", "not one lower and one upper bound"),
        ("aiohttp>=3.14.4,<3.15,!=3.14.5", "not one lower and one upper bound"),
        ("nobody-locks-this>=1,<2", "not locked"),
        ("aiohttp>=3.12,<3.14", "locked outside of its bounds, at "),
        ("aiohttp>=3.14.4,<4", "the upper bound is not 3."),
        ("numpy>=2.0.0,<4", "the upper bound is not 3"),
        ("rfc8785>=0.1.4,<1", "the upper bound is not 0.2"),
    ],
)
def test_control_a_requirement_that_is_not_so_bounded_is_told(written: str, expected: str) -> None:
    assert fault(written).startswith(expected)


def test_the_installed_project_says_these_bounds_in_its_metadata() -> None:
    said: dict[str, set[tuple[str, str]]] = {extra: set() for extra in DECLARED}
    for one in map(Requirement, importlib.metadata.requires("mnemogate") or []):
        [extra] = [extra for extra in DECLARED if str(one.marker or "") == _marker(extra)]
        said[extra].add((one.name, str(one.specifier)))
    assert said == {
        extra: {(one.name, str(one.specifier)) for one in map(Requirement, declared)}
        for extra, declared in DECLARED.items()
    }


def _marker(extra: str) -> str:
    return f'extra == "{extra}"' if extra else ""


def test_the_start_refuses_the_very_versions_of_aiohttp_that_the_metadata_refuse() -> None:
    [declared] = [one for one in map(Requirement, REQUIREMENTS) if one.name == "aiohttp"]
    bounds = {one.operator: one.version for one in declared.specifier}
    assert bounds == {">=": AIOHTTP_FROM, "<": AIOHTTP_BELOW}
