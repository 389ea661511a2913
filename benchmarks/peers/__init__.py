"""Other people's engines, holding our weights."""
