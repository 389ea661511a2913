"""Decides which requests are served: API keys, rate limits, quotas, and the one gate."""
