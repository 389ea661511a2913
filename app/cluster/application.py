"""The Ray Serve application of `deploy/ray/serve.yaml`."""

from collections.abc import Mapping

from ray import serve

from app.cluster.replica import Replica


def application(settings: Mapping[str, str | int | float]) -> serve.Application:
    """Returns an application with one deployment, `Replica`; the configuration file says how many there are.

    Args:
        settings: Settings of the service by their names in lower case.
    """
    texts = {name: str(value) for name, value in settings.items()}
    return serve.deployment(Replica, name="Replica").bind(texts)
