"""The HTML report of a run: `page` reads the run's folder and compares sentences, `pictures` draws."""
