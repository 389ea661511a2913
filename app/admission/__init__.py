"""Who may send requests, how many and how often: API keys, rate limits, quotas, and the gate."""
