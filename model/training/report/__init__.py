"""The HTML report of a run: curves, attention maps, sentences. Log and provenance are in `run_folder`."""
