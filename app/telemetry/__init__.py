"""⑨ What operators see: metrics, log lines and traces, and the timings of a request that they show.

`access_record` has the fields of the log line and the trace of a finished request.
"""
