"""Lowerings that targets share: scheduled programs as tiles."""
