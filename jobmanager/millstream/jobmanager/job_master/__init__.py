"""The JobMaster, which makes all decisions about one job. All pure."""
