"""Event time and timers: timestamps, watermarks, and the callbacks that they trigger."""
