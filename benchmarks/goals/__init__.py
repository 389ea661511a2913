"""The scores that recipes in examples/goals are to reach, each by one command."""
