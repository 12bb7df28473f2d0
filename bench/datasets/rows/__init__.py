"""The rows of data files: downloaded, streamed, joined and filtered."""
