"""The public log: an append-only list of entries under a signed Merkle root.

``entries`` says what stands in a line, ``note`` how a checkpoint is spelled, ``store`` reads a log, ``check`` decides
whether it holds, ``appending`` extends one that does.
"""
