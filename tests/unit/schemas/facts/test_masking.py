"""What is masked in a result, and what is not (progress 3.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden_schemas.facts.masking import MARK, mask


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("id 123e4567-e89b-12d3-a456-426614174000.", "id 00000000-e89b-12d3-a456-4266141740ff."),
        ("id aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "id aaaaaaaa-bbbb-cccc-dddd-ffffffffffff"),
        ("at 2025-12-01T10:00:00Z ok", "at 2026-01-02T11:22:33.5Z ok"),
        ("at 2025-12-01 10:00 ok", "at 2025-12-02 10:01 ok"),
        ("on 2025-12-01 ok", "on 2025-11-30 ok"),
        ("1:02:03 up", "11:22:33 up"),
        ("object at 0x7f00aa11bb", "object at 0x7f00aa11bc"),
        ("commit 3f2a9c0d1e4b5a", "commit 0f2a9c0d1e4b5b"),
        ("offset 12345678901", "offset 98765432109876"),
        ("elapsed: 12", "elapsed: 13.5"),
        ("Time = 3", "Time = 4"),
        ("durationMs=4", "durationMs=5"),
        ("done in 12 ms", "done in 7 ms"),
        ("done in 1.5s", "done in 22.75s"),
        ("took 3 seconds", "took 4 seconds"),
        ("waited 3 secs", "waited 4 secs"),
        ("pid 12", "pid 13"),
        ("PID=12", "PID=13"),
        ("a\n\t b", "a b"),
        ("a\n", "a"),
    ],
)
def test_what_changes_by_itself_is_masked(one: str, other: str) -> None:
    assert mask(one) == mask(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 tests failed", "4 tests failed"),
        ("page 1 of 9", "page 2 of 9"),
        ("port 8080", "port 8081"),
        ("line 123456789", "line 123456788"),
        ("decade", "facade"),
        ("aaaaaaaaaaaaaa", "bbbbbbbbbbbbbb"),  # a word, not an id: no digit in it
        ("12 msgs", "13 msgs"),
        ("5 sheep", "6 sheep"),
        ("sometime 3", "sometime 4"),
        ("0xabc", "0xabd"),
    ],
)
def test_what_may_be_progress_stays(one: str, other: str) -> None:
    assert mask(one) != mask(other)


def test_the_words_around_stay() -> None:
    assert mask("job 3f2a9c0d1e4b5a took 12 s, 3 left") == f"job {MARK} took {MARK} s, 3 left"


@given(st.text())
def test_white_space_is_one_blank_and_masking_never_fails(text: str) -> None:
    masked = mask(text)
    assert masked == " ".join(masked.split())


@pytest.mark.parametrize(
    "piece", ["1", "a1", "-", "0x", " ", "1:", "time", "1.", "pid ", "\n", "aaaa-", "12:34:", "1 ", "2020-01-01T"]
)
def test_hostile_repetition_takes_no_longer_than_its_length(piece: str) -> None:
    # Quadratic work on a million characters would take hours, not seconds.
    mask(piece * (1_000_000 // len(piece)) + "!")


def test_a_long_text_is_masked_like_its_lines() -> None:
    line = "2026-01-01 12:00:01 request 0x12ab34cd took 12 ms  on worker 7\n"
    assert mask(line * 10_000) == " ".join([mask(line)] * 10_000)
    assert mask("word " * 100_000) == " ".join(["word"] * 100_000)
    assert mask("x" * 500_000) == "x" * 500_000
    assert mask("x" * 500_000 + " 12 ms") == "x" * 500_000 + f" {mask('12 ms')}"
