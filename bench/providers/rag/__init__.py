"""Retrieval algorithms that run in this process: chunk, enrich, embed, store, rank.

Modules: ``settings`` reads ``local:``, ``chunks`` splits and ranks, ``index`` and ``postgres`` store, ``provider``
implements the Protocol. An algorithm is a subclass. It defines the text that a model adds to a chunk, and the second
list that is ranked with the vectors: :mod:`bench.providers.aqrag`, :mod:`bench.providers.contextual_retrieval`,
:mod:`bench.providers.openrouter_rag`.
"""
