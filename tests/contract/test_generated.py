"""What is checked in under ``generated/`` is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwarden_schemas import generate


def test_generated_documents_are_up_to_date() -> None:
    changed = generate.drifted()
    assert not changed, f"{', '.join(changed)}: run {generate.COMMAND} and look at what changed for the readers"


def test_a_changed_a_missing_and_a_leftover_document_are_drift(tmp_path: Path) -> None:
    documents = generate.documents()
    for name, text in documents.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert generate.drifted(tmp_path) == []
    (tmp_path / "events.schema.json").write_text("{}", encoding="utf-8")
    (tmp_path / "asyncapi.json").unlink()
    (tmp_path / "old.json").write_text("{}", encoding="utf-8")
    assert generate.drifted(tmp_path) == ["asyncapi.json", "events.schema.json", "old.json"]


def test_check_writes_nothing_and_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path / "generated")
    assert generate.main(["--check"]) == 1
    assert not (tmp_path / "generated").exists()
    assert "verdicts.schema.json is not what the code says: run python -m loopwarden_schemas.generate" in (
        capsys.readouterr().err
    )
    assert generate.main([]) == 0
    (tmp_path / "generated" / "old.json").write_text("{}", encoding="utf-8")
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
