"""ⓕ Other frameworks' formats: a checkpoint written so that CTranslate2 or Hugging Face can run it.

    formats.py               which there are
    export.py                one checkpoint, one format, one folder
    ctranslate2.py           CTranslate2's model folder, through CTranslate2's own specification
    hugging_face.py          Hugging Face's models with our weights; hugging_face_folder.py: their folder
    features.py              the order of features, of which Hugging Face's positions have their own idea
    exporting.py             what all folders share; instructions.py: the README in each

A format's package is needed only when that format is asked for.
"""
