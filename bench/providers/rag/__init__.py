"""Run retrieval algorithms in this process: they chunk, enrich, embed, store and rank.

Modules: ``settings`` reads ``local:``, ``chunks`` splits and ranks, ``index`` and ``postgres`` store, ``provider``
implements the Protocol. Each algorithm is a subclass of the provider. The subclass defines the text that a model adds
to a chunk, and the second list of scores that is combined with the vectors: :mod:`bench.providers.aqrag`,
:mod:`bench.providers.contextual_retrieval`, :mod:`bench.providers.openrouter_rag`.
"""
