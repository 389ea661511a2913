"""ⓕ The tokenizer of a Hugging Face folder, by the files that it has.

source.spm, target.spm, vocab.json        Marian's: pieces numbered by the vocabulary
sentencepiece.bpe.model, vocab.json       M2M100's and SMaLL-100's: the same, then a tag for each language
sentencepiece.bpe.model                   fairseq's (NLLB, mBART): SentencePiece ids + 1, then the tags
spiece.model, or tokenizer.json           T5's: SentencePiece ids, then sentinels
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece

from model.checkpoint.card import Pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.foreign import Fields, ForeignText, read_object, refusal
from model.checkpoint.importing.formats.hugging_face.unigram import (
    TOKENIZER,
    has_unigram,
    sentencepiece_model,
)
from model.checkpoint.importing.text import Readme, all_pairs, chosen_pairs, named_sides
from model.errors import CheckpointError
from model.text.language_codes import bare_tag, language_codes
from model.text.tokenizer import TokenizerSettings

SETTINGS = "tokenizer_config.json"
_MARIAN = ("source.spm", "target.spm")
_FAIRSEQ, _T5 = "sentencepiece.bpe.model", "spiece.model"
_VOCABULARY = "vocab.json"
_SPECIALS = "special_tokens_map.json"
_SHARED, _SOURCE, _TARGET = "tokenizer.model", "source.model", "target.model"
_FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_M2M_LANGUAGES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi
    hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns
    oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh
    zu
"""  # fmt: skip
_OF_SOURCE, _OF_TARGET = "{source}", "{target}"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a tokenizer must agree with.

    Attributes:
        folder: The model's folder.
        config: Fields of config.json.
        sizes: Rows of the source and of the target embedding.
        special_ids: Ids of `pad`, `bos` and `eos`.
        pair: The user's choice of languages.
        readme: What the README says.
    """

    folder: Path
    config: Fields
    sizes: tuple[int, int]
    special_ids: Mapping[str, int]
    pair: Pair | None
    readme: Readme

    def settings(self) -> Fields:
        """Returns the fields of tokenizer_config.json, which may be missing."""
        return Fields.read(self.folder / SETTINGS, {}, is_optional=True)


def read_tokenizer(request: Request) -> ForeignText:
    """Reads the tokenizer of a folder.

    Raises:
        CheckpointError: If a file is missing or does not match the network.
    """
    folder = request.folder
    if (folder / _MARIAN[0]).is_file():
        own = Fields.read(folder / DESCRIPTION, {}) if (folder / DESCRIPTION).is_file() else None
        return _exported(request, own) if own and own.get("prepare") == "dragoman" else _marian(request)
    if (folder / _FAIRSEQ).is_file():
        return _m2m(request) if (folder / _VOCABULARY).is_file() else _fairseq(request)
    if request.config.get("model_type") == "mbart" and has_unigram(folder):
        return _fairseq(request)
    is_t5 = request.config.get("model_type") in ("t5", "mt5")
    if (folder / _T5).is_file() or (is_t5 and has_unigram(folder)):
        return _t5(request)
    found = "; its tokenizer.json alone is not read" if (folder / "tokenizer.json").is_file() else ""
    raise CheckpointError(f"{folder} must hold {_MARIAN[0]}, {_FAIRSEQ} or {_T5}{found}")


def _marian(request: Request) -> ForeignText:
    folder, settings = request.folder, request.settings()
    vocabulary = _pieces(folder / _VOCABULARY, request.sizes[0])
    vocabularies = {"vocabulary.json": vocabulary}
    files = [folder / name for name in (*_MARIAN, _VOCABULARY)]
    if settings.get("separate_vocabs"):
        files.append(folder / "target_vocab.json")
        targets = _pieces(files[-1], request.sizes[1])
        vocabularies = {"source.vocabulary.json": vocabulary, "target.vocabulary.json": targets}
    elif request.sizes[0] != request.sizes[1]:
        raise refusal(settings.path, "separate_vocabs", "true for two sizes of vocabulary", False)
    tags = _tags(vocabulary)
    given = settings.text("source_lang"), settings.text("target_lang")
    source, target = named_sides(folder, *given, is_guessed=request.pair is None)
    # A name such as `gmw-en` is of a group, whose languages the README lists.
    listed = request.readme.sources
    sources = [source] if source and len(listed) < 2 else listed
    targets_known = list(tags) or ([target] if target else request.readme.targets[:1])
    if tags and not sources and set(request.readme.targets) <= set(tags):
        sources = list(tags)  # our own exports translate between all their languages
    unk = vocabulary.index("<unk>") if "<unk>" in vocabulary else None
    if unk is None:
        raise refusal(folder / _VOCABULARY, "<unk>", "a piece of the vocabulary", None)
    pairs = chosen_pairs(folder, all_pairs(sources, targets_known), request.pair, tags)
    return ForeignText(
        settings=TokenizerSettings(
            tags=_used(tags, pairs),
            special_ids={**request.special_ids, "unk": unk},
            source_begin=[_OF_TARGET] if tags else [],
            source_end=[vocabulary[request.special_ids["eos"]]],
            prepare="none",
        ),
        models=_models(files),
        vocabularies=vocabularies,
        pairs=pairs,
        files=files,
    )


def _exported(request: Request, own: Fields) -> ForeignText:
    """Returns the tokenizer of an exported checkpoint of ours: the models' own ids, our preparation."""
    files = [request.folder / name for name in _MARIAN]
    processor = _processor(files[0])
    tags = own.text_by_name("language_tags")
    return ForeignText(
        settings=TokenizerSettings(
            tags=tags,
            lowercase=own.flag("lowercase"),
            separate_punctuation=own.flag("separate_punctuation"),
            special_ids={name: getattr(processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")},
        ),
        models=_models(files),
        vocabularies={},
        pairs=chosen_pairs(request.folder, own.pairs("pairs"), request.pair, tags),
        files=[*files, own.path],
    )


def _models(files: Sequence[Path]) -> dict[str, Path]:
    """Returns the models of both sides by our names: one if they are equal."""
    is_one = len({_processor(path).serialized_model_proto() for path in files[:2]}) == 1
    return {_SHARED: files[0]} if is_one else {_SOURCE: files[0], _TARGET: files[1]}


def _m2m(request: Request) -> ForeignText:
    folder, settings = request.folder, request.settings()
    numbered = read_object(folder / _VOCABULARY)
    # transformers 5 does not save M2M100's languages.
    names = _languages(folder, [f"__{code}__" for code in _M2M_LANGUAGES.split()])
    pieces = _ordered(folder / _VOCABULARY, numbered, len(numbered))
    # The file may number the tags itself.
    pieces = [*pieces, *(name for name in names if name not in numbered)]
    files = [folder / _FAIRSEQ, folder / _VOCABULARY, *_present(folder, _SPECIALS)]
    is_small = "small100" in f"{settings.text('tokenizer_class')} {folder.name}".lower().replace("-", "")
    frames = (
        {"source_begin": [_OF_TARGET]}
        if is_small
        else {"source_begin": [_OF_SOURCE], "target_begin": [_OF_TARGET]}
    )
    return _tagged(request, pieces, names, frames, files, folder / _FAIRSEQ)


def _fairseq(request: Request) -> ForeignText:
    folder, settings = request.folder, request.settings()
    path, model, processor = _model(folder, _FAIRSEQ)
    names = _languages(folder)
    own = [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]
    # A tokenizer.json numbers all pieces itself.
    pieces = own if path.name == TOKENIZER else [*_FAIRSEQ_SPECIALS, *own[3:], *names, "<mask>"]
    files = [path, *_present(folder, _SPECIALS)]
    kind = settings.text("tokenizer_class").removesuffix("Fast")
    is_old_mbart = kind == "MBartTokenizer"
    frames: dict[str, Sequence[str]] = {"source_begin": [_OF_SOURCE], "target_begin": [_OF_TARGET]}
    if is_old_mbart or settings.get("legacy_behaviour"):
        frames |= {"source_begin": [], "source_end": ["</s>", _OF_SOURCE]}
    if is_old_mbart:
        frames["target_begin"] = []
    found = _tagged(request, pieces, names, frames, files, model)
    if not is_old_mbart:
        return found
    targets = {target for _, target in found.pairs}
    if len(targets) > 1:
        raise CheckpointError(f"{folder} begins each translation with its language: name one with `--pair`")
    return _with_start(found, pieces)


def _with_start(tokenizer: ForeignText, pieces: Sequence[str]) -> ForeignText:
    target = next(target for _, target in tokenizer.pairs)
    return replace(tokenizer, start_id=pieces.index(tokenizer.settings.tags[target]))


def _tagged(
    request: Request,
    pieces: Sequence[str],
    names: Sequence[str],
    frames: Mapping[str, Sequence[str]],
    files: Sequence[Path],
    model: bytes | Path,
) -> ForeignText:
    """Returns a tokenizer whose languages are the tags that it lists."""
    codes = language_codes(names)
    tags = {codes[name]: name for name in names if name in codes}
    pairs = chosen_pairs(request.folder, all_pairs(tags, tags), request.pair, tags)
    unk = pieces.index("<unk>")
    return ForeignText(
        settings=TokenizerSettings(
            tags=_used(tags, pairs),
            special_ids={**request.special_ids, "unk": unk},
            source_end=frames.get("source_end", ["</s>"]),
            source_begin=frames["source_begin"],
            target_begin=frames.get("target_begin", []),
            prepare="none",
        ),
        models={_SHARED: model},
        vocabularies={"vocabulary.json": _filled(request, pieces, request.sizes[0])},
        pairs=pairs,
        files=files,
    )


def _t5(request: Request) -> ForeignText:
    folder = request.folder
    path, model, processor = _model(folder, _T5)
    own = [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]
    tags = _tags(own)
    tasks = _tasks(request.config)
    languages = request.readme.sources or list(tags)
    known = all_pairs(languages, tags) if tags else list(tasks)
    if len(known) > 1 and not tags and request.pair is None:
        choices = ", ".join("-".join(each) for each in known)
        raise CheckpointError(f"{folder} names the task in the text: choose one with `--pair`, of {choices}")
    # A model that was trained further may keep the tasks of the first training.
    pairs = chosen_pairs(folder, known if tags or request.pair is None else [], request.pair, tags)
    text = "" if tags else tasks.get(pairs[0], "")
    prefix = [
        piece if piece in own else own[processor.unk_id()] for piece in processor.encode(text, out_type=str)
    ]
    return ForeignText(
        settings=TokenizerSettings(
            tags=_used(tags, pairs),
            special_ids={**request.special_ids, "unk": processor.unk_id()},
            source_begin=[_OF_TARGET] if tags else prefix,
            source_end=[own[request.special_ids["eos"]]],
            prepare="none",
        ),
        models={_SHARED: model},
        vocabularies={"vocabulary.json": _filled(request, own, request.sizes[0])},
        pairs=pairs,
        files=[path],
    )


def _tasks(config: Fields) -> dict[Pair, str]:
    """Returns the text before the source, by direction: T5's `translate English to French: `."""
    tasks = config.get("task_specific_params")
    found: dict[Pair, str] = {}
    for name, values in tasks.items() if isinstance(tasks, dict) else ():
        kind, _, languages = name.partition("_")
        source, _, target = languages.partition("_to_")
        prefix = values.get("prefix") if isinstance(values, dict) else None
        if kind == "translation" and source and target and isinstance(prefix, str):
            found[source, target] = prefix
    return found


def _tags(pieces: Sequence[str]) -> dict[str, str]:
    """Returns the pieces that are language tags, by our codes."""
    codes = language_codes(piece for piece in pieces if bare_tag(piece))
    return {code: piece for piece, code in codes.items()}


def _used(tags: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, str]:
    """Returns the tags of the languages that are translated."""
    used = {code for pair in pairs for code in pair}
    return {code: piece for code, piece in tags.items() if code in used}


def _languages(folder: Path, default: Sequence[str] = ()) -> list[str]:
    """Returns the pieces of languages in the order of their ids."""
    for name in (SETTINGS, _SPECIALS):
        values = read_object(folder / name) if (folder / name).is_file() else {}
        for field_name in ("additional_special_tokens", "extra_special_tokens"):
            listed = values.get(field_name)
            if isinstance(listed, list) and listed:
                pieces = [each.get("content") if isinstance(each, dict) else each for each in listed]
                return [piece for piece in pieces if isinstance(piece, str)]
    if default:
        return list(default)
    raise refusal(folder / _SPECIALS, "additional_special_tokens", "the languages in the order of ids", None)


def _pieces(path: Path, rows: int) -> list[str]:
    return _ordered(path, read_object(path), rows)


def _ordered(path: Path, numbered: Mapping[str, object], rows: int) -> list[str]:
    """Returns pieces by id; ids without a piece get a placeholder."""
    pieces: list[str | None] = [None] * rows
    for piece, id_ in numbered.items():
        if type(id_) is not int or not 0 <= id_ < rows or pieces[id_] is not None:
            raise refusal(path, piece, f"an id of its own below {rows}", id_)
        pieces[id_] = piece
    return [f"<unused{id_}>" if piece is None else piece for id_, piece in enumerate(pieces)]


def _filled(request: Request, pieces: Sequence[str], rows: int) -> list[str]:
    """Returns as many pieces as the network has rows."""
    if len(pieces) > rows:
        raise refusal(
            request.config.path, "vocab_size", f"at least {len(pieces)}, as the tokenizer has", rows
        )
    return [*pieces, *(f"<unused{id_}>" for id_ in range(len(pieces), rows))]


def _present(folder: Path, *names: str) -> list[Path]:
    return [folder / name for name in names if (folder / name).is_file()]


def _model(folder: Path, name: str) -> tuple[Path, bytes | Path, sentencepiece.SentencePieceProcessor]:
    """Returns the file that was read, the model, and the model loaded: of this name, or of tokenizer.json."""
    path = folder / name if (folder / name).is_file() else folder / TOKENIZER
    if path.name != TOKENIZER:
        return path, path, _processor(path)
    model = sentencepiece_model(path)
    return path, model, _processor(path, model)


def _processor(path: Path, model: bytes | None = None) -> sentencepiece.SentencePieceProcessor:
    """Loads a model file, or the model that a file was converted to."""
    try:
        content = path.read_bytes() if model is None else model
        return sentencepiece.SentencePieceProcessor(model_proto=content or b"\xff")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except RuntimeError as error:
        raise CheckpointError(f"{path} is not a SentencePiece model") from error
