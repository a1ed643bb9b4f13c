"""The last hour of what running jobs did, in the dispatcher's memory."""
