"""What processes send each other, as frozen dataclasses. Their encoding is in `millstream.core.wire`."""
