"""④ Which sentence is decoded when."""
