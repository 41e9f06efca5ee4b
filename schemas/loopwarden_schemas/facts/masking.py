"""Masks what changes from one result to the next without being news: ids, dates, clocks, durations (progress 3.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["MARK", "mask"]

MARK = "\x00"
"""What a masked part becomes; no text that an agent reads holds it."""

# Python's expressions skip fast to a first literal or set, not to a word boundary or a repeat. So each begins with one
# character, looks behind it for the boundary, and is asked for only when a cheap search says that it may match.
# Quantifiers are possessive where a hostile text could make them try again and again.
_DIGIT = re.compile(r"[0-9]")
_UUID_INSIDE = re.compile(r"-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-")
_UUID = re.compile(r"\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b")
_DATE_INSIDE = re.compile(r"-[0-9][0-9]-")
_DATE = re.compile(
    r"[0-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?(?:[Zz]\b|[+-][0-9]{2}:?[0-9]{2}))?)?"
)
_CLOCK_INSIDE = re.compile(r":[0-9][0-9]:")
_CLOCK = re.compile(r"\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\b")
_HEX_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]{6,}")
_HEX_WORD = re.compile(r"[0-9A-Fa-f](?<!\w.)[0-9A-Fa-f]{11,}+\b")
_LONG_NUMBER = re.compile(r"[0-9][0-9]{9,}+")
_TIME_WORDS = ("time", "took", "elapsed", "duration", "latency")
_NAMED_NUMBER = re.compile(
    r"\b((?:duration|elapsed|took|time|latency)\w*+[\s:=\"'(]{1,5})[0-9]++(?:\.[0-9]++)?", re.IGNORECASE
)
_NUMBER_WITH_UNIT = re.compile(r"[0-9][0-9]*+(?:\.[0-9]++)?\s*+(?:[munMUN]?[sS]|[sS]ec(?:ond)?s?)\b")
_PID = re.compile(r"\b(pid[\s:=#\"'(]{0,5})[0-9]++", re.IGNORECASE)
_KEEP_WORD = rf"\1{MARK}"
_BLANK = re.compile(r"\s")
_PIECE = 64 * 1024


def mask(text: str) -> str:
    """Masks the volatile parts of a text and makes every run of white space one blank.

    In this order: UUIDs; ISO dates with an optional time; h:mm:ss clocks; 0x and 6 or more hex digits; words of 12 or
    more hex digits that hold a digit and a letter; 10 or more digits; a number after a word that begins with duration,
    elapsed, took, time or latency; a number with a unit of time up to seconds; the number of a pid. Shorter numbers
    stay: progress is often a number. Takes time in proportion to the text, whatever it holds. A long text is masked in
    pieces of whole lines: within one expression no other thread runs, and a runner's agent must not stand still.
    """
    if len(text) <= 2 * _PIECE:
        return _masked(text)
    return " ".join(filter(None, map(_masked, _pieces(text))))


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces that end with a line, or at least with a word."""
    start = 0
    while len(text) - start > 2 * _PIECE:
        end = text.find("\n", start + _PIECE, start + 2 * _PIECE)
        if end < 0:
            blank = _BLANK.search(text, start + _PIECE)
            if blank is None:
                break
            end = blank.start()
        yield text[start:end]
        start = end
    yield text[start:]


def _masked(text: str) -> str:
    if _UUID_INSIDE.search(text) is not None:
        text = _UUID.sub(MARK, text)
    if _DIGIT.search(text) is not None:
        if _DATE_INSIDE.search(text) is not None:
            text = _DATE.sub(MARK, text)
        if _CLOCK_INSIDE.search(text) is not None:
            text = _CLOCK.sub(MARK, text)
        if "0x" in text or "0X" in text:
            text = _HEX_NUMBER.sub(MARK, text)
        text = _HEX_WORD.sub(_mask_hex_word, text)
        text = _LONG_NUMBER.sub(MARK, text)
        lowered = text.lower()
        if any(word in lowered for word in _TIME_WORDS):
            text = _NAMED_NUMBER.sub(_KEEP_WORD, text)
        text = _NUMBER_WITH_UNIT.sub(MARK, text)
        if "pid" in lowered:
            text = _PID.sub(_KEEP_WORD, text)
    return " ".join(text.split())


def _mask_hex_word(match: re.Match[str]) -> str:
    """A word of hex digits alone is an id only if it has both digits and letters."""
    word = match.group()
    return word if word.isdigit() or word.isalpha() else MARK
