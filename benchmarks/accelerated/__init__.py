"""What `benchmarks.gpu` measures, part by part."""
