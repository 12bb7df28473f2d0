"""The documents of the JSON API, which the pages show too."""
