"""DeepL's API, versions 2 and 3, over the same service.

`routes` translates texts and documents, and has DeepL's codes and names of languages. `glossaries` has
the paths of glossaries, which `app.translation.glossary_store` stores. `schemas` has the fields; it also
lists the parameters that this service lacks, and refuses them by name. Errors in DeepL's form are in
`app.http.errors`.
"""
