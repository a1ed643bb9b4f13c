"""The contract type for import-linter, which finds the folders of a package by its spec, after it was imported.

The folders of `millstream` are joined when it is imported; `lint-imports` imports this module before it searches for
them.
"""

from __future__ import annotations

from importlinter.contracts.layers import LayersContract

import millstream


class LayersOfAllFolders(LayersContract):
    """Layers of a package whose parts are in several folders."""

    assert len(millstream.__path__) > 1, "the parts of millstream are installed editable, each in a folder of its own"
