"""Run retrieval algorithms in this process: split texts into chunks, embed, store and rank the chunks.

Each algorithm is a subclass of ``provider.Rag``. A subclass can let a language model write texts about each chunk, and
can add a second list of scores. The algorithms are :mod:`bench.providers.aqrag`,
:mod:`bench.providers.contextual_retrieval` and :mod:`bench.providers.openrouter_rag`.
"""
