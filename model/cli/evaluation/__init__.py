"""What `dragoman evaluate` is made of: a text, systems that translate it, and what is reported of them."""
