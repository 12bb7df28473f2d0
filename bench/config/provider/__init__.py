"""The provider config: its blocks, the calls it describes, and the checks of its file."""
