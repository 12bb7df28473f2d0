"""The rows of a run in the formats of other tools."""
