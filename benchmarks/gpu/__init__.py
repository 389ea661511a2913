"""One session on a GPU: its parts check and measure, and predicted figures stand next to the results."""
