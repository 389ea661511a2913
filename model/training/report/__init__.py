"""Progress, log, provenance and the HTML report of a run."""
