"""The profiles there are, by name."""

from __future__ import annotations

from loopwarden.detection.documented import DocumentedProfile
from loopwarden.detection.profile import Profile
from loopwarden.detection.progress import ProgressProfile

__all__ = ["PROFILES"]

PROFILES: dict[str, Profile] = {
    DocumentedProfile.name: DocumentedProfile(),
    ProgressProfile.name: ProgressProfile(),
}
