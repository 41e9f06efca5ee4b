"""Headless Chromium: what a page comes to, and what it looks like."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

__all__ = ["CHROMIUM", "dump_dom", "screenshot"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SETTLE_MS = 6_000
_TIMEOUT_S = 90.0


async def dump_dom(url: str) -> str:
    """The document after its scripts ran, serialised.

    Raises:
        TimeoutError: The browser did not come to an end.
    """
    return (await _run(url, "--dump-dom")).decode()


async def screenshot(url: str, path: Path, *, width: int = 1280, height: int = 900) -> None:
    """Draws a page into a PNG file."""
    await _run(url, f"--screenshot={path}", f"--window-size={width},{height}", "--hide-scrollbars")


async def _run(url: str, *options: str) -> bytes:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            # Nothing outside is asked, whatever the browser itself would like.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--virtual-time-budget={_SETTLE_MS}",
            *options,
            url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return out
