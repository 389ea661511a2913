"""What every benchmark uses: command-line options, fair timing, texts, the machine, reports and plots."""
