"""What all request bodies have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Wire(BaseModel):
    # Strict: a string of digits or a boolean is not a number. Extra fields are other servers' extensions.
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if value is not None or key in cls._nullable()}
        return values

    @classmethod
    def _nullable(cls) -> frozenset[str]:
        return frozenset()
