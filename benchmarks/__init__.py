"""Numbers, one command each: `python -m benchmarks.<name>`."""
