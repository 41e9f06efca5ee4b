"""The rules in words, for people who were not there when they were configured."""

from __future__ import annotations

from loopwarden.detection.families import PREFIX as FAMILY_PREFIX
from loopwarden_schemas.configuration import AgentSettings

__all__ = ["rule_in_words"]

_PROGRESS = {
    "repeat": "One call ran again and again, and brought the same each time.",
    "lap": "A few calls ran round and round in the same order, and brought the same each time.",
    "stale": "This call had brought the same outcome before, and too little was new lately.",
    "failing": "The tool failed the same way again and again, with other arguments.",
    "missing_tool": "The tool does not exist, and was called again.",
    "waiting": "What was asked for did not change, however often it was asked.",
    "unanswered": "The same call was made again and again, and no result was recorded.",
    "reworded": "The same target was asked in other words, and gave the same answer.",
    "refused": "Calls that had been refused were tried again, and nothing new came in between.",
    "compaction_churn": "The context was compacted repeatedly within few calls: it fills faster than work is done.",
    "compaction_loop": "After the context was compacted, the run went straight back to a call with a known result.",
    "compaction_no_news": "The context was compacted several times without one new result, and the run still repeats.",
    "compaction_idle": "The context was compacted several times in a row with no call in between.",
}


def rule_in_words(detector: str, level: str, settings: AgentSettings) -> str:
    """What a rule looks for, with the thresholds in force.

    Args:
        detector: The rule.
        level: warning or critical.
        settings: The agent's settings.

    Returns:
        A sentence or two; empty for a rule that this version does not know.
    """
    limits = settings.documented
    critical = level == "critical"
    match detector:
        case "generic_repeat" if critical:
            return (
                f"One call (same tool, same arguments) gave the same outcome {limits.critical} times or more in a row, "
                "not counting other calls in between."
            )
        case "generic_repeat":
            return (
                f"One call (same tool, same arguments) stands {limits.warning} times or more among the run's last "
                f"{limits.history_size} calls."
            )
        case "known_poll_no_progress":
            threshold = limits.critical if critical else limits.warning
            return f"A known poll gave the same answer {threshold} times or more in a row."
        case "ping_pong":
            threshold = limits.critical if critical else limits.warning
            stable = ", and neither brought anything new" if critical else ""
            return f"Two calls took turns {threshold} times or more{stable}."
        case "unknown_tool_repeat":
            return f"A tool that does not exist was called {limits.unknown_tool} times or more in a row."
        case "global_circuit_breaker":
            return (
                f"One call gave the same outcome {limits.circuit_breaker} times or more: the last resort, whichever "
                "rules are switched off."
            )
        case "compaction_loop_persisted":
            return (
                f"After the context was compacted, the first {limits.window_size} results were all of the same call "
                "with the same outcome: the compaction did not break the loop."
            )
        case "verdict_ignored":
            return (
                f"{settings.ignored_after} calls ran although they had been judged critical: the runner does not obey."
            )
    if detector.startswith(FAMILY_PREFIX) and (rule := _PROGRESS.get(detector.removeprefix(FAMILY_PREFIX))):
        return f"Across the runs of one task: {rule[0].lower()}{rule[1:]}"
    return _PROGRESS.get(detector, "")
