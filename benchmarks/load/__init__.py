"""The load generator: scenarios against a running service, and the objectives that each must meet.

`scenarios` has the users that locust simulates and how often each sends what, `objectives` the limits, and
`overload` sends more than locust can.
"""
