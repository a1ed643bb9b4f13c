"""The communication between services: gRPC, sessions, certificates and leases."""
