"""Retrieval algorithms that run in this process: chunk, enrich, embed, store, rank.

``settings`` reads ``local:``, ``chunks`` cuts and orders, ``index`` and ``postgres`` keep, ``provider`` is the Protocol
over them. An algorithm is a subclass that defines what a model adds to a chunk and which
second list is ranked beside the vectors: :mod:`bench.providers.aqrag`, :mod:`bench.providers.contextual_retrieval`,
:mod:`bench.providers.openrouter_rag`.
"""
