"""ⓕ Import of other frameworks' models: the reader of each format presents a ForeignModel to the importer."""
