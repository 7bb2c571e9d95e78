"""From raw traces to a MemoryIndex: facts in arenas, and per-bank views that retrieval reads."""
