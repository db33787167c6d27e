"""Waiting for the disk takes most of a save's time and changes nothing that these tests see, save one about its order."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
