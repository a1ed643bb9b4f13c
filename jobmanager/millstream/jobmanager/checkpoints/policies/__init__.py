"""The coordinator's policies: the next request, options of snapshots, retention, repeated commit notifications.

They do not depend on the coordinator. All pure.
"""
