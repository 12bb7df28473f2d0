"""Read the files that users write, such as configs, prompts and templates; every error has a place in the file."""
