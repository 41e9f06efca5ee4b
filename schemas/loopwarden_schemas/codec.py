"""Bytes to structs and back: the only place that reads or writes the wire."""

from __future__ import annotations

import json
import re

import msgspec
from msgspec import Raw

from loopwarden_schemas.errors import UnknownEventType, WireError, clip
from loopwarden_schemas.events import EVENT_TYPES, RUN_ID_BYTES, Event
from loopwarden_schemas.json_reading import is_too_deep, read_leniently
from loopwarden_schemas.verdicts import Verdict

__all__ = ["decode_event", "decode_verdict", "encode_event", "encode_verdict", "event_time"]

_LATEST_MS = 253_402_300_799_999  # the end of year 9999
_PATH = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Invalid value '(?P<value>.*)'$", re.DOTALL)
_CONTENT = frozenset(["args", "result", "error"])
# What is wrong with a fact may be that it is content.
_NOT_SHOWN = _CONTENT | {"message", "facts"}

_event_decoder = msgspec.json.Decoder(Event)
_verdict_decoder = msgspec.json.Decoder(Verdict)
_encoder = msgspec.json.Encoder()


def decode_event(data: bytes) -> Event:
    """Reads one event.

    ``run_id`` and ``root_run_id`` are trimmed; a blank root is none. Content may hold what JSON forbids but JSON
    libraries write: lone surrogates (a text cut in the middle of an emoji), NaN and infinities.

    Args:
        data: One JSON object.

    Raises:
        UnknownEventType: A type that this version does not know.
        WireError: Anything else that is wrong; names field, value and reason.
    """
    if is_too_deep(data):
        raise WireError("message", "is nested too deeply")
    try:
        event = _event_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _explain(error, data) from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        event = _decode_leniently(data, error)
    event.run_id = _checked_id("run_id", event.run_id)
    if not event.run_id:
        raise WireError("run_id", "is blank")
    if event.root_run_id is not None:
        event.root_run_id = _checked_id("root_run_id", event.root_run_id) or None
    return event


def _decode_leniently(data: bytes, error: Exception) -> Event:
    """Reads what only a lenient parser takes for JSON, where nothing but content needs one.

    Raises:
        WireError: It is no JSON even so, no event, or its ids cannot be written as UTF-8.
    """
    try:
        document = read_leniently(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise WireError("message", f"is not valid JSON: {_reason(error)}")
    for name in _CONTENT & document.keys():
        document[name] = Raw(json.dumps(document[name]).encode())
    event: Event
    try:
        event = msgspec.convert(document, Event)
    except msgspec.ValidationError as invalid:
        raise _explain(invalid, data) from None
    except UnicodeEncodeError:  # of a word that is looked up, such as the type
        raise WireError(_broken_text(document) or "message", "holds a lone surrogate") from None
    if (broken := _broken_text(msgspec.structs.asdict(event))) is not None:
        raise WireError(broken, "holds a lone surrogate")
    return event


def _broken_text(fields: dict[str, object]) -> str | None:
    """Name of the first field, other than content, that cannot be written as UTF-8; None where there is none."""
    for name, value in fields.items():
        try:
            if name not in _CONTENT:
                _encoder.encode({name: value})
        except UnicodeEncodeError:
            return name if name.isascii() else "message"
    return None


def encode_event(event: Event) -> bytes:
    """Writes one event as JSON."""
    return _encoder.encode(event)


def decode_verdict(data: bytes) -> Verdict:
    """Reads one verdict.

    Raises:
        WireError: The message is no verdict.
    """
    try:
        return _verdict_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _explain(error, data) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise WireError("message", f"is not valid JSON: {_reason(error)}") from None


def encode_verdict(verdict: Verdict) -> bytes:
    """Writes one verdict as JSON."""
    return _encoder.encode(verdict)


def event_time(event: Event, broker_ms: int) -> int:
    """The event's time in epoch milliseconds; the broker's where the event has none or an absurd one.

    Args:
        event: The event.
        broker_ms: Time of the broker's record, epoch milliseconds.
    """
    ts = event.ts
    if ts is None or not 0 <= ts <= _LATEST_MS:  # neither is true of NaN
        return broker_ms
    return int(ts)


def _checked_id(field: str, value: str) -> str:
    value = value.strip()
    if value.startswith("\x00"):
        raise WireError(field, "begins with NUL", clip(value))
    if len(value) * 4 > RUN_ID_BYTES and len(value.encode("utf-8", "surrogatepass")) > RUN_ID_BYTES:
        raise WireError(field, f"is longer than {RUN_ID_BYTES} bytes", clip(value))
    return value


def _reason(error: Exception) -> str:
    # A UnicodeDecodeError's own text carries the whole input.
    return "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _explain(error: msgspec.ValidationError, data: bytes) -> WireError:
    """Turns msgspec's message into field, reason and value."""
    match = _PATH.match(str(error))
    reason = match["reason"] if match else str(error)
    path = (match["path"] or "") if match else ""
    field = path.removeprefix("$").removeprefix(".") or "message"
    if field in ("type", "message") and (unknown := _UNKNOWN.match(reason)):
        if unknown["value"] in EVENT_TYPES:  # read as one kind of event, then called another
            return WireError("type", "is there twice", clip(unknown["value"]))
        return UnknownEventType("type", "is unknown", clip(unknown["value"]))
    return WireError(field, reason, _value_at(data, field))


def _value_at(data: bytes, field: str) -> str:
    """The offending value, for the error; nothing of what is, or may hold, content."""
    if field.split(".")[0] in _NOT_SHOWN:
        return ""
    try:
        value = msgspec.json.decode(data)
        for part in field.split("."):
            value = value[part]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, KeyError, TypeError, IndexError):
        return ""
    return "" if isinstance(value, dict | list) else clip(value)
