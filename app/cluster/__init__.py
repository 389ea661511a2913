"""The service on a Ray cluster: replicas, and fronts that send each request to one of them.

`front` repeats the requests of a replica that ends, and does not import Ray. `messages` is what the two
exchange. `ray_replicas` finds the replicas and their metrics, and `replica` is one of them. `autoscaling`
decides the number of replicas: Ray's controller imports it, which loads no service.
"""
