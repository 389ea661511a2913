"""The load generator: scenarios against a running service, and what a service must show under each."""
