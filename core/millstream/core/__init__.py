"""What all sides of Millstream agree on. Nothing in here imports the API or a service."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines about closed connections say nothing to users
