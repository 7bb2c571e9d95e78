"""The test suite; a package so that no dependency's stray `tests` folder can stand in for it."""
