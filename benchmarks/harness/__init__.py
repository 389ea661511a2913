"""What every benchmark uses: command-line options, fair timing, texts, the machine and reports."""
