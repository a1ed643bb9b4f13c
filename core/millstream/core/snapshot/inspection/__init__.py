"""Looking into snapshots."""
