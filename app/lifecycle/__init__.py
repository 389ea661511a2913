"""The life of the process: start, the loaded models and their reload, readiness, watchdog, shutdown.

`registry` keeps models in memory and drops them, old versions included. `reloading` notices new checkpoints,
and `active_models` swaps the list of models. `shutdown` ends the process; how long it drains is a setting.
`processes` is what several service processes share; the supervisor that replaces them is in
`app.connection`.
"""
