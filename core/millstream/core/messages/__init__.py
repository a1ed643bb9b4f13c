"""What processes tell each other, as frozen dataclasses. How they travel is `millstream.core.wire`."""
