"""The engine under other front ends: one module an interface, each over the public names only.

`zero_mem` is for Zero-Mem front ends, `graph` for code that calls igraph's PageRank, `langchain` for
LangChain. Nothing of the package imports this one.
"""
