"""What all request bodies have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


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
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Says the same of null."""
        schema = handler(core_schema)
        shape = handler.resolve_ref_schema(schema)
        fields = shape.get("properties", {})
        for name in fields.keys() - set(shape.get("required", ())):
            fields[name] = _or_null(fields[name])
        return schema

    @classmethod
    def _nullable(cls) -> frozenset[str]:
        return frozenset()


def looks_like(kind: Any) -> BeforeValidator:
    """What the document says of a field of which more is checked by hand than its type says."""
    return BeforeValidator(lambda value: value, json_schema_input_type=kind)


def _or_null(field: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a field that may be null as well."""
    if not field.keys() & {"type", "$ref", "anyOf"}:
        return field  # anything goes
    about = {"title", "description", "default"}
    kind: JsonSchemaValue = {key: value for key, value in field.items() if key not in about}
    kinds = kind["anyOf"] if kind.keys() == {"anyOf"} else [kind]
    null = {"type": "null"}
    rest: JsonSchemaValue = {key: value for key, value in field.items() if key in about}
    return {"anyOf": kinds if null in kinds else [*kinds, null], **rest}
