"""① Who may come in, how often, and for how much."""
