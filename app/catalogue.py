"""② Which checkpoint translates which pair of languages."""

from collections.abc import Sequence

from app.backend import LoadedModel
from model.card import Pair
from model.errors import InputError, UnsupportedLanguageError
from model.text.language import canonical_code


class Catalogue:
    """The loaded checkpoints, the preferred one of a pair first.

    Attributes:
        models: All of them, in order of preference.
        sources: Every language that some checkpoint reads.
        languages: Every language that some checkpoint reads or writes.
    """

    def __init__(self, models: Sequence[LoadedModel]) -> None:
        self.models = tuple(models)
        self._targets: dict[str, tuple[str, ...]] = {}
        for source, target in (pair for model in models for pair in model.card.pairs):
            known = self._targets.get(source, ())
            self._targets[source] = known if target in known else (*known, target)
        self.sources = tuple(self._targets)
        written = [target for targets in self._targets.values() for target in targets]
        self.languages = tuple(dict.fromkeys([*self.sources, *written]))

    def targets(self, source: str) -> tuple[str, ...]:
        """Languages that some checkpoint translates `source` into."""
        return self._targets.get(source, ())

    def language(self, field: str, code: str) -> str:
        """Our code of a language as users write it: `EN` and `en-GB` mean `en`.

        Raises:
            UnsupportedLanguageError: If no checkpoint knows it.
        """
        for candidate in (code, canonical_code(code)):
            if candidate in self.languages:
                return candidate
        raise UnsupportedLanguageError(field, code, self.languages)

    def named(self, name: str) -> LoadedModel:
        """The checkpoint of this name.

        Raises:
            InputError: If there is none.
        """
        for model in self.models:
            if model.card.name == name:
                return model
        names = ", ".join(model.card.name for model in self.models)
        raise InputError(f"`model` must be one of {names}", "model")

    def route(self, pair: Pair, name: str | None) -> LoadedModel:
        """The checkpoint that translates a pair: the named one, else the first that can.

        Raises:
            InputError: If no checkpoint has this name.
            UnsupportedLanguageError: If it, or all of them, cannot.
        """
        source, target = pair
        if name is not None:
            model = self.named(name)
            model.card.require_pair(source, target)
            return model
        for model in self.models:
            if pair in model.card.pairs:
                return model
        if source not in self.sources:
            raise UnsupportedLanguageError("source", source, self.sources)
        raise UnsupportedLanguageError("target", target, self.targets(source))
