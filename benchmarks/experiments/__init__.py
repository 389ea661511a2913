"""What single changes to a recipe are worth: variants of one training file, trained alike, in one table."""
