"""Scripts played over the twin in the process: no broker, the same library, the same rules."""

from __future__ import annotations

import asyncio
from importlib.resources import as_file, files

from loopwarden.runner import LoopWarden
from loopwarden.simulation import Play, Script, Step, play, recorded_scripts, synthetic_scripts
from loopwarden_schemas.configuration import Configuration


def _played(*scripts: Script) -> list[Play]:
    async def together() -> list[Play]:
        with as_file(files("loopwarden").joinpath("data", "demo.yaml")) as path:
            configuration = Configuration.from_file(path)
        async with LoopWarden.in_process(configuration) as warden:
            return await asyncio.gather(*(play(warden, script, lambda *_: None, speed=200) for script in scripts))

    return asyncio.run(together())


def test_every_script_comes_out_as_it_must() -> None:
    scripts = [*synthetic_scripts(), *recorded_scripts()]
    plays = _played(*scripts)
    assert [played.script.run_id for played in plays if not played.as_expected] == []
    assert {played.outcome for played in plays} == {"aborted", "refused", "untouched"}
    recorded = [played for played in plays if played.script.agent_id == "recorded"]
    assert sum(played.outcome != "untouched" for played in recorded) >= 10
    assert sum(played.script.outcome == "success" for played in recorded) >= 10


def test_an_agent_that_is_refused_gives_up_after_its_patience() -> None:
    again = Step("search", {"q": "x"}, "nothing")
    (played,) = _played(Script("r", "a", [again] * 40, "test", patience=2))
    assert (played.state, played.refused, played.calls) == ("gave up", 2, 22)


def test_a_run_of_which_something_else_was_expected_says_so() -> None:
    (played,) = _played(Script("r", "a", [Step("search", {}, "x")], "test", expected="refused"))
    assert not played.as_expected
