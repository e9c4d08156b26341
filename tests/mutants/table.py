"""Every mutant, by name."""

from __future__ import annotations

from typing import Final

from tests.mutants.policy_table import POLICY
from tests.mutants.proxy_table import PROXY
from tests.mutants.storage_table import STORAGE

MUTANTS: Final = (*POLICY, *STORAGE, *PROXY)
