"""A run as a Kubernetes Job: one pod a node, index 0 brings them together and judges."""
