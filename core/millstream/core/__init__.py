"""What all sides of Millstream agree on. Nothing in here imports the API or a service."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines about closed connections say nothing to users
# Its preparations for a fork wait for threads that do not come to rest while a cluster runs: a process that forks hangs
# or crashes in them. Forked children do without our connections, see `millstream.core.processes.forking`.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
