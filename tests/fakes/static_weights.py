"""A folder of weights as a static embedding model has it: a vector for each word, and the words' numbers."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path

DIMENSION = 16


def write_weights(folder: Path, words: Iterable[str]) -> Path:
    """Write ``tokenizer.json`` and ``model.safetensors`` with a fixed random vector per word."""
    known = ["[UNK]", *sorted({word.lower() for word in words})]
    numbers = random.Random(7)
    values = [numbers.gauss(0, 1) for _ in range(len(known) * DIMENSION)]
    data = struct.pack(f"<{len(values)}f", *values)
    tensor = {"dtype": "F32", "shape": [len(known), DIMENSION], "data_offsets": [0, len(data)]}
    head = json.dumps({"embeddings": tensor}).encode()
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None,
        "decoder": None, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(known)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder
