"""`CheckpointListener`: what functions, readers, writers and enumerators may do when a checkpoint has its outcome."""

from __future__ import annotations


class CheckpointListener:
    """Base of everything that is notified of checkpoints; both methods do nothing unless they are overridden.

    They are called between two records. A notification may be missing: a checkpoint that completes stands for all
    before it, and a task that has failed is notified of none. `notify_checkpoint_complete` may be repeated for a
    checkpoint, and has to be idempotent.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int, /) -> None:
        """Called when the checkpoint `checkpoint_id` is durable: a restart does not go back behind it.

        An exception does not undo the checkpoint. The notification is repeated, and after five failures in a row the
        task fails.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int, /) -> None:
        """Called when the checkpoint `checkpoint_id` was aborted; a later one will hold what it would have held.

        An exception fails the task.
        """
