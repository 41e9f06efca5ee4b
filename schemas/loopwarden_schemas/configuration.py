"""The configuration: the documented block as people already have it, and ours beside it.

Documented: ``tools.loopDetection``, ``agents.list[].tools.loopDetection`` (and ``agents.entries.<id>`` of newer
versions), merged field by field (rule 1). Ours: the closed section ``loopwarden``. Everything else in the file belongs
to somebody else and is left alone.

Unknown keys and wrong types are errors that name file, path and value. Thresholds that are out of order are raised at
run time (reading 8); ``Configuration.raised`` says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

from loopwarden_schemas.errors import ConfigurationError, clip
from loopwarden_schemas.facts.tool_words import Kind
from loopwarden_schemas.field_types import Natural, Positive, not_null
from loopwarden_schemas.progress_settings import ProgressParameters, ProgressSettings

__all__ = [
    "AgentSettings",
    "Configuration",
    "DocumentedSettings",
    "LoopDetection",
    "ProfileName",
    "Raised",
    "ToolOverride",
    "resolve",
    "section_models",
]

ProfileName = Literal["documented", "progress"]
ModeName = Literal["observe", "enforce"]
DEFAULT_AGENT = ""
"""Agent id that stands for an agent without an entry of its own."""
HISTORY_LIMIT = 1_000
"""Effective size of the ring at most, whatever ``historySize`` says (design: two tables)."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False)


class _Detectors(_Closed):
    generic_repeat: Annotated[StrictBool | None, BeforeValidator(not_null)] = None
    known_poll_no_progress: Annotated[StrictBool | None, BeforeValidator(not_null)] = None
    ping_pong: Annotated[StrictBool | None, BeforeValidator(not_null)] = None


class _Guard(_Closed):
    window_size: Annotated[Positive | None, BeforeValidator(not_null)] = None


class LoopDetection(_Closed):
    """One documented block, as written: an absent field is None (rule 1)."""

    enabled: Annotated[StrictBool | None, BeforeValidator(not_null)] = None
    history_size: Annotated[Positive | None, BeforeValidator(not_null)] = None
    warning_threshold: Annotated[Positive | None, BeforeValidator(not_null)] = None
    critical_threshold: Annotated[Positive | None, BeforeValidator(not_null)] = None
    unknown_tool_threshold: Annotated[Positive | None, BeforeValidator(not_null)] = None
    global_circuit_breaker_threshold: Annotated[Positive | None, BeforeValidator(not_null)] = None
    detectors: Annotated[_Detectors | None, BeforeValidator(not_null)] = None
    post_compaction_guard: Annotated[_Guard | None, BeforeValidator(not_null)] = None


class ToolOverride(_Closed):
    """What the name lists of profile ``progress`` get wrong about a tool."""

    kind: Kind | None = None
    wait: StrictBool | None = None


class _Ours(_Closed):
    profile: ProfileName | None = None
    mode: ModeName | None = None
    ignored_after: Natural | None = None
    idle_timeout_seconds: Natural | None = None
    progress: ProgressParameters | None = None
    tools: dict[StrictStr, ToolOverride] | None = None


class _OursTop(_Ours):
    agents: dict[StrictStr, _Ours] = Field(default_factory=dict)


@dataclass(frozen=True)
class DocumentedSettings:
    """Effective settings of the documented profile, defaulted and in order (rule 1).

    Attributes:
        enabled: The detectors run.
        guard: The post-compaction guard runs: unless ``enabled`` is exactly false.
        record_calls: Calls are recorded: not in mode enforce with ``enabled`` exactly false.
        history_size: Records kept, as configured; ``ring_size`` is what is used.
        warning: Repeats before a warning.
        critical: Repeats before a refusal; above ``warning``.
        unknown_tool: Calls of a missing tool before a refusal.
        circuit_breaker: Identical outcomes before the global breaker; above ``critical``.
        generic_repeat: Detector switch.
        known_poll: Detector switch.
        ping_pong: Detector switch.
        window_size: Outcomes that the guard watches after a compaction.
    """

    enabled: bool = False
    guard: bool = True
    record_calls: bool = True
    history_size: int = 30
    warning: int = 10
    critical: int = 20
    unknown_tool: int = 10
    circuit_breaker: int = 30
    generic_repeat: bool = True
    known_poll: bool = True
    ping_pong: bool = True
    window_size: int = 3

    @property
    def ring_size(self) -> int:
        """Records really kept: ``history_size``, at most 1,000."""
        return min(self.history_size, HISTORY_LIMIT)


@dataclass(frozen=True)
class Raised:
    """A threshold that the ordering moved (reading 8).

    Attributes:
        field: Documented name.
        old: As configured or defaulted.
        new: As it is used.
    """

    field: str
    old: int
    new: int


@dataclass(frozen=True)
class AgentSettings:
    """Everything that the fold needs to know about one agent.

    Attributes:
        profile: Which profile judges a new run.
        mode: ``enforce`` or ``observe``.
        documented: Settings of the documented profile.
        progress: Parameters of profile ``progress``.
        tools: Per-tool overrides of kind and wait.
        ignored_after: Results of calls judged critical before the run is stopped as ignoring verdicts; 0 is off.
        idle_timeout_ms: Stream time without an event after which a run is over; 0 is never.
        config_version: Version of the configuration that this comes from.
    """

    profile: ProfileName = "documented"
    mode: ModeName = "enforce"
    documented: DocumentedSettings = field(default_factory=DocumentedSettings)
    progress: ProgressSettings = field(default_factory=ProgressSettings)
    tools: tuple[tuple[str, Kind | None, bool | None], ...] = ()
    ignored_after: int = 3
    idle_timeout_ms: int = 6 * 3_600_000
    config_version: str = ""


def resolve(block: LoopDetection | None, mode: ModeName = "enforce") -> tuple[DocumentedSettings, tuple[Raised, ...]]:
    """Defaults a block and puts its thresholds in order (rule 1).

    Args:
        block: A merged block, None where there is none.
        mode: Mode of the agent: with ``enabled`` false an enforcing runner records no calls.

    Returns:
        The settings, and the thresholds that were raised.
    """
    block = block or LoopDetection()
    detectors = block.detectors or _Detectors()
    guard = block.post_compaction_guard or _Guard()
    default = DocumentedSettings()
    warning = block.warning_threshold or default.warning
    critical = written_critical = block.critical_threshold or default.critical
    breaker = written_breaker = block.global_circuit_breaker_threshold or default.circuit_breaker
    critical = max(critical, warning + 1)
    breaker = max(breaker, critical + 1)
    raised = [
        Raised(name, old, new)
        for name, old, new in (
            ("criticalThreshold", written_critical, critical),
            ("globalCircuitBreakerThreshold", written_breaker, breaker),
        )
        if old != new
    ]
    return (
        DocumentedSettings(
            enabled=block.enabled is True,
            guard=block.enabled is not False,
            record_calls=not (mode == "enforce" and block.enabled is False),
            history_size=block.history_size or default.history_size,
            warning=warning,
            critical=critical,
            unknown_tool=block.unknown_tool_threshold or default.unknown_tool,
            circuit_breaker=breaker,
            generic_repeat=detectors.generic_repeat is not False,
            known_poll=detectors.known_poll_no_progress is not False,
            ping_pong=detectors.ping_pong is not False,
            window_size=guard.window_size or default.window_size,
        ),
        tuple(raised),
    )


class Configuration:
    """A checked configuration.

    Args:
        document: The parsed file, or any mapping of its form; None for no configuration at all.
        source: Name of the file, for errors.

    Raises:
        ConfigurationError: Unknown keys or wrong types in our part of the document.
    """

    def __init__(self, document: Mapping[str, Any] | None = None, *, source: str = "configuration") -> None:
        problems: list[str] = []
        document = _mapping(document if document is not None else {}, "", source, problems)
        self._global, self._agents = _documented_blocks(document, source, problems)
        ours = document.get("loopwarden", {})
        self._ours = _check(_OursTop, ours, "loopwarden", source, problems) or _OursTop()
        problems += _disordered(self._ours, source)
        if problems:
            raise ConfigurationError(problems)
        self.source = source
        self.text = self._canonical()
        self.version = sha256(self.text.encode()).hexdigest()[:12]
        self._settings: dict[str, AgentSettings] = {}

    @classmethod
    def from_file(cls, path: str | Path) -> Configuration:
        """Reads a file: JSON5 (``.json``, ``.json5``) or YAML.

        Raises:
            ConfigurationError: The file cannot be read or taken.
        """
        path = Path(path)
        return cls(_parse(path), source=str(path))

    @classmethod
    def from_text(cls, text: str) -> Configuration:
        """Reads back what ``text`` gave: how a configuration stands in the log."""
        return cls(json.loads(text), source="the log")

    @classmethod
    def from_block(cls, block: Mapping[str, Any] | None, **ours: Any) -> Configuration:
        """A configuration of one documented block and our own keys, such as ``mode="observe"``."""
        document: dict[str, Any] = {"loopwarden": ours} if ours else {}
        if block is not None:
            document["tools"] = {"loopDetection": dict(block)}
        return cls(document)

    @property
    def agent_ids(self) -> list[str]:
        """Agents with an entry of their own, sorted."""
        return sorted(set(self._agents) | set(self._ours.agents))

    @property
    def is_off(self) -> bool:
        """Whether the detectors are off for every agent: the documented default."""
        every = [self.settings_for(agent) for agent in [DEFAULT_AGENT, *self.agent_ids]]
        return not any(settings.documented.enabled or settings.profile == "progress" for settings in every)

    def block_for(self, agent_id: str | None) -> LoopDetection | None:
        """The merged documented block of an agent, as written (rule 1)."""
        return _merge(self._global, self._agents.get(agent_id or DEFAULT_AGENT))

    def settings_for(self, agent_id: str | None) -> AgentSettings:
        """Effective settings of an agent; of any unknown agent alike."""
        name = agent_id or DEFAULT_AGENT
        if name not in self._agents and name not in self._ours.agents:
            name = DEFAULT_AGENT  # agents are many, entries are few: the cache holds entries
        settings = self._settings.get(name)
        if settings is None:
            settings = self._settings[name] = self._resolve(name)
        return settings

    def raised(self) -> list[tuple[str, Raised]]:
        """Thresholds that the ordering moved, with the agent (empty for all others)."""
        found = []
        for agent in [DEFAULT_AGENT, *self.agent_ids]:
            found += [(agent, raised) for raised in resolve(self.block_for(agent))[1]]
        return found

    def _resolve(self, name: str) -> AgentSettings:
        own = self._ours.agents.get(name, _Ours())
        top = self._ours
        default = AgentSettings()
        mode = own.mode or top.mode or default.mode
        tools = {**(top.tools or {}), **(own.tools or {})}
        idle = own.idle_timeout_seconds if own.idle_timeout_seconds is not None else top.idle_timeout_seconds
        ignored = own.ignored_after if own.ignored_after is not None else top.ignored_after
        return replace(
            default,
            profile=own.profile or top.profile or default.profile,
            mode=mode,
            documented=resolve(self.block_for(name), mode)[0],
            progress=ProgressSettings.of(top.progress, own.progress),
            tools=tuple(sorted((tool, item.kind, item.wait) for tool, item in tools.items())),
            ignored_after=default.ignored_after if ignored is None else ignored,
            idle_timeout_ms=default.idle_timeout_ms if idle is None else idle * 1000,
            config_version=self.version,
        )

    def _canonical(self) -> str:
        """Our part of the document, in one form: equal configurations have equal texts."""
        document: dict[str, Any] = {"loopwarden": _dump(self._ours)}
        if self._global is not None:
            document["tools"] = {"loopDetection": _dump(self._global)}
        document["agents"] = {
            "list": [
                {"id": agent, "tools": {"loopDetection": _dump(block)}} for agent, block in sorted(self._agents.items())
            ]
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def describe(self, agent_id: str | None = None) -> dict[str, Any]:
        """Effective settings as plain data, for people."""
        settings = self.settings_for(agent_id)
        return {**asdict(settings), "progress": settings.progress.described()}


def section_models() -> tuple[type[BaseModel], type[BaseModel]]:
    """The models of a documented block and of our section: what the JSON Schema of the file is made from."""
    return LoopDetection, _OursTop


def _parse(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: cannot be read: {error}"]) from None
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            return yaml.safe_load(text)
        import json5

        return json5.loads(text)
    except ImportError as error:
        raise ConfigurationError([f"{path}: reading it needs {error.name}: pip install 'loopwarden[cli]'"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([f"{path}: {' '.join(str(error).split())}"]) from None
    except Exception as error:  # yaml's errors share no base with the standard library's
        raise ConfigurationError([f"{path}: {' '.join(str(error).split())}"]) from None


def _dump(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude_none=True)


def _mapping(value: object, path: str, source: str, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    problems.append(f"{source}: {path or '(root)'}: should be an object, got {clip(value)}")
    return {}


def _documented_blocks(
    document: Mapping[str, Any], source: str, problems: list[str]
) -> tuple[LoopDetection | None, dict[str, LoopDetection]]:
    tools = document.get("tools")
    block = tools.get("loopDetection", _ABSENT) if isinstance(tools, Mapping) else _ABSENT
    top = None if block is _ABSENT else _check(LoopDetection, block, "tools.loopDetection", source, problems)
    agents: dict[str, LoopDetection] = {}
    for agent, path, entry in _agent_entries(document):
        own_tools = entry.get("tools")
        block = own_tools.get("loopDetection", _ABSENT) if isinstance(own_tools, Mapping) else _ABSENT
        if block is _ABSENT:
            continue
        model = _check(LoopDetection, block, f"{path}.tools.loopDetection", source, problems)
        if model is not None:
            agents[agent] = model
    return top, agents


def _agent_entries(document: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    section = document.get("agents")
    if not isinstance(section, Mapping):
        return []
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    listed = section.get("list")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, Mapping) and isinstance(entry.get("id"), str):
            found.append((entry["id"], f"agents.list[{index}]", entry))
    entries = section.get("entries")
    if isinstance(entries, Mapping):
        found += [
            (str(name), f"agents.entries.{name}", entry)
            for name, entry in entries.items()
            if isinstance(entry, Mapping)
        ]
    return found


_ABSENT = object()
_Model = TypeVar("_Model", bound=BaseModel)


def _check(model: type[_Model], value: object, path: str, source: str, problems: list[str]) -> _Model | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            where = ".".join([path, *(str(part) for part in item["loc"])])
            reason = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                reason = "is unknown here"
            elif item["type"] == "model_type":
                reason = "Input should be an object"
            problems.append(f"{source}: {where}: {reason}, got {clip(item['input'])}")
        return None


def _disordered(ours: _OursTop, source: str) -> list[str]:
    """Thresholds of profile ``progress`` that contradict each other once the blocks are merged."""
    found: list[str] = []
    for path, block in [
        ("loopwarden.progress", None),
        *((f"loopwarden.agents.{name}.progress", own.progress) for name, own in ours.agents.items() if own.progress),
    ]:
        try:
            ProgressSettings.of(ours.progress, block)
        except ValueError as error:
            found.append(f"{source}: {path}: {error}")
    return found


def _merge(top: LoopDetection | None, own: LoopDetection | None) -> LoopDetection | None:
    """Field by field; ``detectors`` and ``postCompactionGuard`` key by key (rule 1)."""
    if top is None or own is None:
        return own if top is None else top
    merged = {**_dump(top), **_dump(own)}
    for nested in ("detectors", "postCompactionGuard"):
        merged[nested] = {**_dump(top).get(nested, {}), **_dump(own).get(nested, {})}
    return LoopDetection.model_validate(merged)
