"""Aborts of whole families."""

from __future__ import annotations

from loopwarden.runner.families import Families
from tests.unit.runner.test_standing import entry, forecast, verdict


def test_a_root_abort_holds_for_the_key_until_its_run_is_released() -> None:
    families = Families()
    families.take("top", verdict(5, None, action="abort", scope="root", run_id="r"))
    assert families.abort("top")
    assert families.abort("other") is None
    families.take("top", verdict(6, [], run_id="sibling"))
    families.take("top", verdict(6, [entry("root", "top", "abort")], run_id="r"))
    assert families.abort("top")
    families.take("top", verdict(7, [], run_id="r"))
    assert families.abort("top") is None


def test_a_process_that_starts_later_learns_it_from_the_standing() -> None:
    families = Families()
    families.take("top", forecast(9, entry("root", "top", "abort")))
    assert families.abort("top")
    families.forget("top")
    assert families.abort("top") is None


def test_neither_a_refusal_nor_an_observed_abort_stops_a_family() -> None:
    families = Families()
    families.take("top", verdict(5, None, action="block", scope="root"))
    families.take("top", verdict(6, None, action="abort", scope="run"))
    families.take("top", verdict(7, None, action="abort", scope="root", mode="observe"))
    assert families.abort("top") is None
