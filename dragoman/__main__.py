"""`python -m dragoman`: the command line, where the command `dragoman` is not on the path."""

from model.cli import main

if __name__ == "__main__":
    main()
