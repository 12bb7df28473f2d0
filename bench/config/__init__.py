"""Reading what users wrote: configs, prompts and templates, with a place for every error."""
