"""⑨ What operators see: metrics, log lines and traces, and the timings of a request that they show."""
