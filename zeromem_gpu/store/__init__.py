"""An index ↔ a directory: Parquet for texts and scalars, safetensors for arrays, JSON for the manifest.

    directory/
      CURRENT                the version to open, such as v0002; replaced atomically
      v0001/  v0002/         the last two versions, each complete in itself
        manifest.json        format, fingerprint, configuration, counts; size and BLAKE2b of every file
        banks.parquet        per bank its name and how many rows of each table are its own
        traces.parquet       the traces as they were given
        sessions.parquet     names
        units.parquet        scalar columns
        entities.parquet     keys and names
        facts.safetensors    words, vocabulary, sentences, mentions, spans, hidden units; token weights
                             where any are kept, else no table of them
        vectors.safetensors  float32 [rows, D] of units, vocabulary, sentences, entities and spans

Every table holds all banks one after the other, so ten thousand banks are the same few files. Texts are
binary columns: UTF-8 that lets lone surrogates pass, which Parquet strings do not. Nothing is pickled and
opening runs no code from the directory.

A version is written aside as `v000N.partial`, its manifest last, then renamed, then named by CURRENT; each
step is flushed to disk before the next. Whatever interrupts a save, the version before stays and opens.
Where other files are damaged, the traces of a version can still be read and exported (`inspect.py`).
"""

from zeromem_gpu.store.inspect import Findings, file_sizes, inspect_directory, stored_traces
from zeromem_gpu.store.trace_rows import live_traces
from zeromem_gpu.store.versions import open_index, open_version, save_index

__all__ = [
    "Findings",
    "file_sizes",
    "inspect_directory",
    "live_traces",
    "open_index",
    "open_version",
    "save_index",
    "stored_traces",
]
