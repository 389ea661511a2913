"""The life of the process: start, the loaded models and their reload, readiness, watchdog, shutdown."""
