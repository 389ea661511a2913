"""What the peers' services take and give: the part of our interface that the benchmark uses."""

from pydantic import BaseModel


class Decoding(BaseModel):
    """The options that the benchmark sends."""

    max_length: int | None = None


class Request(BaseModel):
    """A text to translate."""

    q: str
    source: str
    target: str
    decoding: Decoding = Decoding()


class Answer(BaseModel):
    """Its translation."""

    translatedText: str
