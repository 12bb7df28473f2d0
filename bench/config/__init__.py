"""Readers of the files that users write: configs, prompts and templates, with a place for every error."""
