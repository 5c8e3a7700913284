"""A judge on 127.0.0.1 that speaks the Anthropic protocol, independent of the project."""
