"""Augury inside other libraries."""
