"""DeepL's API, versions 2 and 3, over the same service: its paths, fields, glossaries and documents.

`refusals` lists the parameters that this service lacks.
"""
