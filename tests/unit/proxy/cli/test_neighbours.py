"""A distribution that brings a package of our name is named; our own is not."""

from __future__ import annotations

from proxy.cli.neighbours import foreign


def test_who_brings_a_package_of_our_name_is_named() -> None:
    installed = {"proxy": ["mnemogate", "proxy.py"], "storage": ["mnemogate"], "numpy": ["numpy"]}
    assert foreign(installed) == ("proxy (proxy.py)",)


def test_control_this_environment_has_none() -> None:
    assert foreign() == ()
    assert foreign({"policy": ["Mnemogate"]}) == ()
