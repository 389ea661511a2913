"""Quality: scores that recipes in examples/goals are to reach, experiments with recipes, words of a list."""
