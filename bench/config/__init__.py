"""Read the files that users write: configs, prompts and templates. Errors name the file, line and column."""
