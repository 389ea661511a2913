"""⑨ What operators see: metrics, log lines and traces, and the timings of a request that they show.

`metrics` declares every metric and has a method for each event; `app.http.middleware` calls that of a
finished request, and the others are called where they happen. `shared_metrics` adds up those
of several processes. `timings` has the stages of a request, `access_record` the fields of its log line
and trace.
"""
