"""Both views, fusion and what surrounds them, as array operations over a whole batch (see README.md)."""
