"""The life of the process: start, the loaded models and their reload, readiness, watchdog, shutdown.

`context` puts together what requests share. `active_models` loads the models, makes the process ready then,
notices new checkpoints and swaps the list. `registry` keeps models in memory and drops them, old versions
included. `engine_backend` lists and loads checkpoints. `phase` has the phase of the process, its requests in
flight and its shutdown. `watchdog` finds engines that make no step. `processes` is what several service
processes share; the supervisor that replaces them is in `app.connection`.
"""
