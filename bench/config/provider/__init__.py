"""Read and check provider configs, which describe how to call a memory system."""
