"""DeepL's API, versions 2 and 3, over the same service: its paths, fields, glossaries and documents.

`routes` also has DeepL's codes and names of languages. `schemas` also lists the parameters that this service
lacks, and refuses them by name.
"""
