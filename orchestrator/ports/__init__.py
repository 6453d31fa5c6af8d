"""Protocols: what the core's decisions need from outside."""
