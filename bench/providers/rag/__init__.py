"""Run retrieval algorithms in this process: split texts into chunks, embed, store and rank the chunks.

Each algorithm is a subclass of ``provider.Rag``. The subclass defines the text that a model adds to a chunk, and a
second list of scores: :mod:`bench.providers.aqrag`, :mod:`bench.providers.contextual_retrieval`,
:mod:`bench.providers.openrouter_rag`.
"""
