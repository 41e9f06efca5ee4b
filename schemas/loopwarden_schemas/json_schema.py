"""JSON Schema of the contract, for whoever publishes, follows or configures without this package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from pydantic.json_schema import models_json_schema

from loopwarden_schemas.configuration import section_models
from loopwarden_schemas.events import Event
from loopwarden_schemas.verdicts import Verdict

__all__ = ["configuration_schema", "events_schema", "struct_schemas", "verdicts_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*)$")
_Schema = dict[str, Any]


def events_schema() -> _Schema:
    """An event: one of the kinds that ``type`` tells apart. Further fields are allowed, and ignored."""
    description = (
        "One event of an agent run, JSON on the topic agent-events. Unknown fields are ignored; an event of an "
        "unknown type is kept in the dead-letter topic."
    )
    return _union_document("events", "LoopWarden event", description, Event)


def verdicts_schema() -> _Schema:
    """A verdict or a forecast. Further fields are allowed, and ignored."""
    definitions = struct_schemas([Verdict], "#/$defs/{}")
    return {
        **_head("verdicts", "LoopWarden verdict", "One verdict, JSON on the topics loop-verdicts and -shadow."),
        "$ref": "#/$defs/Verdict",
        "$defs": definitions,
    }


def configuration_schema() -> _Schema:
    """The configuration file: the documented blocks, and our section; what belongs to others is left open."""
    block, ours = section_models()
    modes = [(model, "validation") for model in (block, ours)]
    names, schema = models_json_schema(modes, ref_template="#/$defs/{model}")  # type: ignore[arg-type]
    definitions = {name.lstrip("_"): _tidy_file(definition) for name, definition in schema["$defs"].items()}
    tools = {"type": "object", "properties": {"loopDetection": _tidy_file(names[block, "validation"])}}
    agent = {"type": "object", "properties": {"tools": tools}}
    listed = {"type": "object", "properties": {"id": {"type": "string"}, "tools": tools}}
    description = (
        "The sections of an openclaw.json, or of a YAML file of that form, that LoopWarden reads. Thresholds that are "
        "out of order are raised, not refused."
    )
    return {
        **_head("configuration", "LoopWarden configuration", description),
        "type": "object",
        "properties": {
            "tools": tools,
            "agents": {
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": listed},
                    "entries": {"type": "object", "additionalProperties": agent},
                },
            },
            "loopwarden": _tidy_file(names[ours, "validation"]),
        },
        "$defs": dict(sorted(definitions.items())),
    }


def struct_schemas(structs: Iterable[type], reference: str) -> dict[str, _Schema]:
    """Schemas of structs and of all that they refer to, by name, sorted; what docstrings say stands in them.

    Args:
        structs: Struct classes.
        reference: Template of a reference, ``{}`` stands for the name.
    """
    wanted = list(structs)
    _, schemas = msgspec.json.schema_components(wanted, ref_template=reference.replace("{}", "{name}"))
    classes = _reachable(wanted)
    return {name: _documented(schemas[name], classes[name]) for name in sorted(schemas)}


def _head(name: str, title: str, description: str) -> _Schema:
    return {"$schema": DIALECT, "$id": f"urn:loopwarden:schema:{name}", "title": title, "description": description}


def _union_document(name: str, title: str, description: str, union: Any) -> _Schema:
    kinds = get_args(union)
    return {
        **_head(name, title, description),
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": struct_schemas(kinds, "#/$defs/{}"),
    }


def _reachable(structs: list[type]) -> dict[str, type]:
    """All structs that these hold, by name."""
    found: dict[str, type] = {}

    def visit(node: msgspec.inspect.Type) -> None:
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls.__name__ in found:
                return
            found[node.cls.__name__] = node.cls
            for field in node.fields:
                visit(field.type)
        elif isinstance(node, msgspec.inspect.UnionType):
            for member in node.types:
                visit(member)
        elif isinstance(node, msgspec.inspect.CollectionType):
            visit(node.item_type)
        elif isinstance(node, msgspec.inspect.Metadata):
            visit(node.type)

    for struct in structs:
        visit(msgspec.inspect.type_info(struct))
    return found


def _documented(schema: _Schema, struct: type) -> _Schema:
    """Puts the first paragraphs of the docstring at the struct, and of ``Attributes`` each line at its property."""
    summary, _ = _docstring(struct)
    attributes: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        attributes |= _docstring(base)[1]
    names = {field.encode_name: field.name for field in msgspec.structs.fields(struct)}
    properties = {
        key: _described(_tidy(value), attributes.get(names.get(key, key), ""))
        for key, value in schema["properties"].items()
    }
    return {**schema, "description": summary, "properties": properties}


def _described(schema: _Schema, text: str) -> _Schema:
    return {"description": text, **schema} if text else schema


def _docstring(struct: type) -> tuple[str, dict[str, str]]:
    """Text above ``Attributes:``, and what it says of each attribute."""
    text = inspect.cleandoc(struct.__doc__ or "").replace("``", "`")
    summary, _, listed = text.partition("\nAttributes:\n")
    attributes: dict[str, str] = {}
    name = ""
    for line in listed.splitlines():
        if match := _ATTRIBUTE.match(line):
            name = match[1]
            attributes[name] = match[2]
        elif name:
            attributes[name] += " " + line.strip()
    return " ".join(summary.split()), attributes


def _tidy(schema: _Schema) -> _Schema:
    """A number is enough where msgspec says number or integer."""
    kinds = schema.get("anyOf", [])
    if {"type": "number"} in kinds and {"type": "integer"} in kinds:
        return {**schema, "anyOf": [kind for kind in kinds if kind != {"type": "integer"}]}
    return schema


_KEYWORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Bounds that pydantic leaves in words of its own where a validator stands before them."""


def _tidy_file(schema: Any) -> Any:
    """Without null (a key that is not wanted is left out), titles that only repeat a key, and private names."""
    if isinstance(schema, list):
        return [_tidy_file(item) for item in schema]
    if not isinstance(schema, dict):
        return schema.replace("#/$defs/_", "#/$defs/") if isinstance(schema, str) else schema
    kept = {
        _KEYWORDS.get(key, key): _tidy_file(value)
        for key, value in schema.items()
        if not (key == "default" and value is None) and not (key == "title" and isinstance(value, str))
    }
    kinds = kept.get("anyOf")
    if isinstance(kinds, list) and {"type": "null"} in kinds:
        rest = [kind for kind in kinds if kind != {"type": "null"}]
        del kept["anyOf"]
        kept |= rest[0] if len(rest) == 1 else {"anyOf": rest}
    return kept
