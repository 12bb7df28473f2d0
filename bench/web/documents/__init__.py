"""Create the documents that the JSON API returns and the pages show."""
