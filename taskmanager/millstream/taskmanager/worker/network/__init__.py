"""The data plane between slot workers: codecs, credit, channels and the gRPC exchange."""
