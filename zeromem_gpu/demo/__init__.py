"""An invented conversation of two friends and twenty questions about it, for the demo and the tests."""

from __future__ import annotations

from pathlib import Path

CONVERSATION = Path(__file__).with_name("conversation.jsonl")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
