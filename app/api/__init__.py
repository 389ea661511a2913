"""① ⑨ HTTP: the only place that names a status."""
