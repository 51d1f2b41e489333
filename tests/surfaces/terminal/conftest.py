"""The fixture of the nouns that tests of the terminal use too."""

from tests.features.conftest import terminal

__all__ = ["terminal"]
