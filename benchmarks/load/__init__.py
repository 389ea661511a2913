"""The load generator: scenarios against a running service, and the objectives that each must meet."""
