"""Lists allowed settings and rules that admit more than the shipped ones, so as to report them."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from policy.ruleset import Ruleset, parse_ruleset, wider_than
from proxy.settings.servers import is_loopback
from proxy.settings.table import Settings


@lru_cache(maxsize=1)
def shipped_rules() -> Ruleset:
    """The default ruleset, which is shipped with this program."""
    return parse_ruleset(resources.files("policy").joinpath("default.toml").read_text("utf-8"))


def wider_settings(settings: Settings) -> tuple[str, ...]:
    """Lines about settings that open a listener to web pages, or to others without TLS."""
    found: list[str] = []
    if "null" in {origin.lower() for origin in settings.allowed_origins}:
        # Any web page can send `Origin: null`, from a sandboxed frame, so allowing it allows every
        # page.
        found.append("allowed_origins: null is the origin of any page in a sandboxed frame")
    for name, address in (("listen", settings.listen), ("admin", settings.admin)):
        if settings.tls_cert is None and not is_loopback(address.host):
            found.append(f"{name}: beyond this machine without TLS, so keys can be read on the way")
    if settings.places != "hold":
        found.append(f"places: {settings.places}, so new lines of files reach every prompt")
    return tuple(found)


def wider_rules(rules: Ruleset) -> tuple[str, ...]:
    """Lines that name the keys of a ruleset that admit more than the shipped ruleset."""
    return tuple(f"ruleset: {key}" for key in wider_than(rules, shipped_rules()))
