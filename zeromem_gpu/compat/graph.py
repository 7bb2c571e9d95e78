"""Graph functions for code in the manner of LinearRAG and HippoRAG: igraph's PageRank, and activation."""

from zeromem_gpu.compat.activation import propagate_activation
from zeromem_gpu.compat.pagerank import PageRankGraph, personalized_pagerank

__all__ = ["PageRankGraph", "personalized_pagerank", "propagate_activation"]
