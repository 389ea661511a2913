"""Quality: scores that recipes in examples/goals are to reach."""
