"""Read benchmark configs, which are YAML files or manifests."""
