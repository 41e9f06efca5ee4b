"""Masks what changes from one result to the next without being news: ids, dates, clocks, durations (rule 3.5)."""

from __future__ import annotations

import re

MARK = "\x00"
"""What a masked part becomes; no text that an agent reads holds it."""

_DIGIT = re.compile(r"[0-9]")
_UUID = re.compile(r"\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?(?:[Zz]\b|[+-][0-9]{2}:?[0-9]{2}))?)?"
)
_CLOCK = re.compile(r"\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\b")
_HEX_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]{6,}")
# Possessive, and anchored at the start of a word: a long word is looked at a constant number of times.
_HEX_WORD = re.compile(r"\b(?=[0-9]*+[A-Fa-f])(?=[A-Fa-f]*+[0-9])[0-9A-Fa-f]{12,}+\b")
_LONG_NUMBER = re.compile(r"[0-9]{10,}+")
_NAMED_NUMBER = re.compile(
    r"\b((?:duration|elapsed|took|time|latency)\w*+[\s:=\"'(]{1,5})[0-9]++(?:\.[0-9]++)?", re.IGNORECASE
)
_NUMBER_WITH_UNIT = re.compile(r"[0-9]++(?:\.[0-9]++)?\s*+(?:[mun]?s|secs?|seconds?)\b", re.IGNORECASE)
_PID = re.compile(r"\b(pid[\s:=#\"'(]{0,5})[0-9]++", re.IGNORECASE)
_TIME_WORDS = ("time", "took", "elapsed", "duration", "latency")
_KEEP_WORD = rf"\1{MARK}"


def mask(text: str) -> str:
    """Masks the volatile parts of a text and makes every run of white space one blank.

    In this order: UUIDs; ISO dates with an optional time; h:mm:ss clocks; 0x and 6 or more hex digits; words of 12 or
    more hex digits that hold a digit and a letter; 10 or more digits; a number after a word that begins with duration,
    elapsed, took, time or latency; a number with a unit of time up to seconds; the number of a pid. Shorter numbers
    stay: progress is often a number. Takes time in proportion to the text, whatever it holds.
    """
    if "-" in text:
        text = _UUID.sub(MARK, text)
    if _DIGIT.search(text) is not None:
        # The searches by literal are far cheaper than the expressions that they save.
        if "-" in text:
            text = _DATE.sub(MARK, text)
        if ":" in text:
            text = _CLOCK.sub(MARK, text)
        if "0x" in text or "0X" in text:
            text = _HEX_NUMBER.sub(MARK, text)
        text = _HEX_WORD.sub(MARK, text)
        text = _LONG_NUMBER.sub(MARK, text)
        lowered = text.lower()
        if any(word in lowered for word in _TIME_WORDS):
            text = _NAMED_NUMBER.sub(_KEEP_WORD, text)
        text = _NUMBER_WITH_UNIT.sub(MARK, text)
        if "pid" in lowered:
            text = _PID.sub(_KEEP_WORD, text)
    return " ".join(text.split())
