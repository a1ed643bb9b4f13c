"""The messages between processes, as frozen structs. Their encoding is in `millstream.core.wire`."""
