"""The fixture of the data directory that tests of changes use too."""

from tests.kernel.store.files.conftest import data

__all__ = ["data"]
