"""② … ⑧ `Translator`: texts in, translations out, without a service.

The service takes the same steps (`document_translation`) around its own queue: its translations are equal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import BinaryIO, Self, overload

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.device import Precision, available_cores
from model.decoding.engine import DecodingEngine
from model.decoding.factory import EngineFactory, engine_factory
from model.decoding.runner import Result
from model.errors import TextTooLongError, TranslationError
from model.text.document import Splitting
from model.text.formats.formats import read_file, suffix_of
from model.text.glossary import Glossary
from model.text.tokenizer import Tokenizer
from model.translation.document_translation import (
    DocumentTranslation,
    rebuild_all,
    resolve_pair,
    sentences_of,
)
from model.translation.result import SentenceTranslation, Translation, better_of, second_request
from model.validators import require_integer

Progress = Callable[[int], object]


def decode_in_parallel(
    engines: Sequence[DecodingEngine],
    requests: Sequence[DecodeRequest],
    progress: Callable[[int], object] | None = None,
) -> list[Result]:
    """Decodes requests on several engines at once; each gets as many sentences of each length as the others.

    Args:
        engines: At least one; all are idle and have the same network.
        requests: Any mix of lengths and options.
        progress: Called with the number of requests done since the last call, by one thread at a time.

    Returns:
        As `DecodingEngine.decode`: one result a request, in order.
    """
    longest_first = sorted(range(len(requests)), key=lambda i: -len(requests[i].source_ids))
    shares = [longest_first[first :: len(engines)] for first in range(len(engines))]
    lock, is_over = Lock(), Event()

    def report(count: int) -> None:
        if is_over.is_set():
            raise CancelledError
        with lock:
            if progress is not None:
                progress(count)

    def decode(engine: DecodingEngine, share: Sequence[int]) -> list[Result]:
        return engine.decode([requests[i] for i in share], progress=report)

    with ThreadPoolExecutor(len(engines)) as pool:
        decoding = [pool.submit(decode, *each) for each in zip(engines, shares, strict=True)]
        try:
            for finished in as_completed(decoding):
                finished.result()
        except BaseException:
            is_over.set()  # the results of the other engines are not needed
            raise
    parts = [each.result() for each in decoding]
    results = dict(
        pair for share, part in zip(shares, parts, strict=True) for pair in zip(share, part, strict=True)
    )
    return [results[i] for i in range(len(requests))]


@dataclass(frozen=True, kw_only=True)
class Translator:
    """A loaded checkpoint that translates texts; several threads may use it.

    Example:
        >>> translator = Translator.load("checkpoints/everyday")
        >>> translator.translate(["Good morning.", "Thank you."], source="en", target="fr")
        ['Bonjour.', 'Merci.']
        >>> translator.translate("Good morning.", source="en", target="fr")
        'Bonjour.'

    Attributes:
        engines: Decode sentences side by side, one engine a thread.
        tokenizer: Text ↔ token ids.
        card: Name, pairs, limits, decoding defaults.
        checksum: SHA-256 of the checkpoint.
        device: Where the network runs: `cpu`, `cuda` or `cuda:N`.
        precision: The number type that the network computes in.
        num_parameters: Parameters of the network; tied ones count once.
        retries: Whether a translation that looks broken gets a second attempt.
    """

    engines: Sequence[DecodingEngine]
    tokenizer: Tokenizer
    card: ModelCard
    checksum: str
    device: str
    precision: Precision
    num_parameters: int
    retries: bool = True

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: str = "auto",
        shortlist: bool | None = None,
        retries: bool = True,
    ) -> Self:
        """Verifies a checkpoint folder and loads it.

        Args:
            folder: Checkpoint folder.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            precision: `auto`, `float32`, `bfloat16`, `float16` or `int8`.
            shortlist: Whether to produce only the tokens of the checkpoint's shortlist; None does so in int8
                if the checkpoint was imported together with one.
            retries: Whether a translation that looks broken gets a second attempt, if `translate` is called
                without options.

        Raises:
            ConfigError: If this machine lacks the device, the device lacks the precision, or the checkpoint
                lacks a shortlist that was requested.
            CheckpointError: If the folder is not a complete, sound checkpoint.
        """
        checkpoint = load_checkpoint(folder)
        factory = engine_factory(checkpoint, device=device, precision=precision, shortlist=shortlist)
        return cls.of(checkpoint, factory, retries=retries)

    def __repr__(self) -> str:
        where = f"{self.precision} on {self.device}"
        return f"<Translator {self.card.name} {self.card.version}, {len(self.card.pairs)} pairs, {where}>"

    @property
    def has_shortlist(self) -> bool:
        """True if only the tokens of the checkpoint's shortlist are produced."""
        return self.engines[0].has_shortlist

    @classmethod
    def of(cls, checkpoint: Checkpoint, factory: EngineFactory, *, retries: bool = True) -> Self:
        """Returns a translator for a checkpoint whose network is in memory.

        Args:
            checkpoint: The checkpoint.
            factory: Makes engines for its network, one for each core if the network runs natively.
            retries: See `load`.
        """
        return cls(
            engines=[factory.make() for _ in range(available_cores() if factory.is_native else 1)],
            tokenizer=checkpoint.tokenizer,
            card=checkpoint.card,
            checksum=checkpoint.checksum,
            device=factory.device,
            precision=factory.precision,
            num_parameters=checkpoint.num_parameters,
            retries=retries,
        )

    # A string is a sequence of strings too; the first overload that fits wins.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        source: str,
        target: str,
        options: DecodeOptions | None = None,
        fields: Sequence[str] | None = None,
        too_long: Callable[[str], object] | None = None,
        splitting: Splitting = "sentences",
        glossary: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str,
        target: str,
        options: DecodeOptions | None = None,
        fields: Sequence[str] | None = None,
        too_long: Callable[[str], object] | None = None,
        splitting: Splitting = "sentences",
        glossary: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        source: str,
        target: str,
        options: DecodeOptions | None = None,
        fields: Sequence[str] | None = None,
        too_long: Callable[[str], object] | None = None,
        splitting: Splitting = "sentences",
        glossary: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Translation | list[Translation]:
        """Translates one text or several texts of any length; all their sentences share batches.

        White space around and between sentences comes back unchanged, and so does a blank text. Without
        options, a sentence whose translation looks broken gets a second attempt (`second_request`).

        Args:
            texts: One text, or a sequence of texts. A text is a sentence or a whole document.
            source: Language code; `en-GB` and `EN` mean `en`.
            target: Language code; the same as `source` leaves the texts unchanged.
            options: How to decode; None uses the checkpoint's defaults.
            fields: A name for each text in error messages; None names them `q[0]`, `q[1]`, ….
            too_long: Called with the name of each text that has a sentence over the checkpoint's limit. The
                translation of such a text is only the line breaks at its end. None divides such sentences.
            splitting: Where the sentences of a text end.
            glossary: The translation that each term must have. `missing_terms` of a translation names those
                that it lacks.
            progress: Called with the number of sentences done since the last call.

        Returns:
            One translation for one text, a list in the order of the texts for several. A `Translation` is a
            string with scores and alternatives as attributes.

        Raises:
            UnsupportedLanguageError: If the checkpoint does not translate this direction.
            TextTooLongError: If a single character is over the checkpoint's limit and `too_long` is None.
            InputError: If the network cannot read a sentence; see `decode`.
            DecodingError: If a sentence failed; see `decode`.
            TypeError: If `texts` is neither a string nor a sequence of strings.
        """
        several = [texts] if isinstance(texts, str) else texts
        _require_strings(several)
        pair = resolve_pair(self.card, source, target)
        read = partial(
            DocumentTranslation.read,
            tokenizer=self.tokenizer,
            card=self.card,
            pair=pair,
            options=options or self.card.decoding,
            splitting=splitting,
            glossary=Glossary(glossary) if glossary else None,
            divides=too_long is None,
        )
        documents = []
        for text, field in zip(several, fields or _default_fields(len(several)), strict=True):
            try:
                documents.append(read(text, field=field))
            except TextTooLongError:
                if too_long is None:
                    raise
                too_long(field)
                documents.append(read(text[len(text.rstrip("\r\n")) :], field=field))
        requests = [request for document in documents for request in document.requests]
        sentences = sentences_of(documents, self.decode(requests, progress=progress), self.tokenizer)
        if self.retries and options is None:
            sentences = self._improved(sentences)
        translations = rebuild_all(documents, sentences)
        return translations[0] if isinstance(texts, str) else translations

    def translate_iter(
        self,
        texts: Iterable[str],
        *,
        source: str,
        target: str,
        batch_size: int = 1024,
        options: DecodeOptions | None = None,
        splitting: Splitting = "sentences",
        glossary: Mapping[str, str] | None = None,
    ) -> Iterator[Translation]:
        """Translates any number of texts, for example the lines of a file, and yields them in order.

        Args:
            texts: Texts, which are read as the translations are taken.
            source: Language code.
            target: Language code.
            batch_size: Number of texts that are read and translated together.
            options: How to decode; None uses the checkpoint's defaults.
            splitting: Where the sentences of a text end.
            glossary: The translation that each term must have.

        Raises:
            ConfigError: If `batch_size` is not positive; otherwise as `translate`.
        """
        require_integer("batch_size", batch_size, 1)
        remaining = enumerate(texts)
        while batch := list(islice(remaining, batch_size)):
            yield from self.translate(
                [text for _, text in batch],
                source=source,
                target=target,
                options=options,
                fields=[f"texts[{number}]" for number, _ in batch],
                splitting=splitting,
                glossary=glossary,
            )

    def translate_file(
        self,
        file: Path | str,
        output: Path | str | BinaryIO,
        *,
        source: str,
        target: str,
        options: DecodeOptions | None = None,
        glossary: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """Translates a file; its layout, links, code and formats stay.

        Args:
            file: A file whose suffix is one of `model.text.formats.formats.SUFFIXES`, such as `.docx`.
            output: Where the translated file is written, in the same format.
            source: Language code.
            target: Language code.
            options: How to decode; None uses the checkpoint's defaults.
            glossary: The translation that each term must have.
            progress: Called with the number of sentences done since the last call.

        Returns:
            The translations of the file's texts, in order.

        Raises:
            InputError: If the file is not what its suffix says; otherwise as `translate`.
        """
        content = read_file(suffix_of(Path(file).name), Path(file).read_bytes(), target).in_runs()
        translations = self.translate(
            content.texts,
            source=source,
            target=target,
            options=options,
            fields=["file"] * len(content.texts),
            splitting=content.splitting,
            glossary=glossary,
            progress=progress,
        )
        translated = content.rebuild(translations)
        if isinstance(output, str | Path):
            Path(output).write_bytes(translated)
        else:
            output.write(translated)
        return translations

    def decode(
        self, requests: Sequence[DecodeRequest], *, progress: Progress | None = None
    ) -> list[list[Hypothesis]]:
        """Decodes sentences that are token ids.

        Args:
            requests: In any order, with any mix of options.
            progress: Called with the number of sentences done since the last call.

        Returns:
            The hypotheses of each request, best first, in the order of the requests.

        Raises:
            InputError: If the network cannot read a request.
            DecodingError: If the network's output for a request is not a number, or the options forbid every
                token.
        """
        decoded = []
        for result in decode_in_parallel(self.engines, requests, progress):
            if isinstance(result, TranslationError):
                raise result
            decoded.append(result)
        return decoded

    def _improved(self, sentences: Sequence[SentenceTranslation]) -> list[SentenceTranslation]:
        """Returns the sentences; those that looked broken are replaced by better second attempts."""
        improved = list(sentences)
        again = {i: request for i, each in enumerate(sentences) if (request := second_request(each))}
        results = decode_in_parallel(self.engines, list(again.values())) if again else []
        for (i, request), result in zip(again.items(), results, strict=True):
            if not isinstance(result, TranslationError):
                improved[i] = better_of(improved[i], request, result)
        return improved


def _require_strings(texts: object) -> None:
    """Refuses what is no sequence of strings, in words that name what it is."""
    if not isinstance(texts, Sequence):
        kind = type(texts).__name__
        raise TypeError(f"texts must be a string or a sequence of strings, but is {kind}; see translate_iter")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] must be a string, but is {type(text).__name__}")


def _default_fields(count: int) -> list[str]:
    return [f"q[{i}]" for i in range(count)]
