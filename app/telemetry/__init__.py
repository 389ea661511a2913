"""⑨ What operators see: metrics, log lines, traces."""
