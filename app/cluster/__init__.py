"""The service on a Ray cluster: replicas, and fronts that send each request to one of them.

`front` repeats the requests of a replica that ends, and does not import Ray. `autoscaling` decides the
number of replicas.
"""
