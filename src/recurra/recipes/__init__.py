"""Recipes: everything about one experiment in one place, read and overridden strictly."""
