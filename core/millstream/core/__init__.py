"""The parts that the API, the client and all services share. Imports neither the API nor a service."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its messages about closed connections are of no use to users
# Its fork handlers wait for threads that never become idle while a cluster runs: a process that forks hangs or crashes
# in them. Forked children do not use our connections, see `millstream.core.processes.forking`.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
