"""The service on a Ray cluster: replicas, and fronts that send each request to one of them."""
