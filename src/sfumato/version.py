"""The version, in a module of its own so that everything can name it without importing more."""

__version__ = "0.3.0"
