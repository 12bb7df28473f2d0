"""The commands of ``bench``: one module for each command or group of related commands."""
