"""One module or package for each format of `recognise.FORMATS`: `recognises` and `read`."""
