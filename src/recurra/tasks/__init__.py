"""Recipes: everything about one task in one place, read and overridden strictly."""
