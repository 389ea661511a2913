"""The life of the process: start, the set of loaded models and its reload, readiness, watchdog, shutdown."""
