"""Machines as roots of facts: each is described as data, and written to a folder by a test."""
