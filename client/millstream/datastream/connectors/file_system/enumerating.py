"""How a file source lists and cuts files, and to whom it gives them, with PyFlink's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """Whether files are cut into splits. Subfolders are looked through, and hidden names passed over, in any case."""

    splits_files: bool = True

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Large files are cut where their format and compression allow it: the default."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Each file is one split."""
        return FileEnumeratorProvider(False)


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """Which subtask gets which split: the next one is assigned to the next request."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """The only one. Every task manager must see the same paths, so each split is as near to any of them."""
        return FileSplitAssignerProvider()
