"""What a run tells about itself: progress, log, curves, pictures, provenance, report."""
