"""The JobMaster: what decides everything about one job. All pure."""
