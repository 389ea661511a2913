"""ⓕ What a run tells about itself: progress, journal, scores, pictures, provenance."""
