"""The HTML report of a run: `page` reads the run's folder, `pictures` draws, `sentences` compares."""
