"""Download, stream, join and filter the rows of data files."""
