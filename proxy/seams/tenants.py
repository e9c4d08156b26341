"""The form of a tenant's name."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

TENANT_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
DEFAULT_TENANT = "default"
TenantName = Annotated[str, Meta(pattern=TENANT_PATTERN)]
