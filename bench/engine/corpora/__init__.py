"""Prepare a corpus for searches: choose its namespace, ingest its memories, wait for the index, check the isolation,
and clean up.
"""
