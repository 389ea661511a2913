"""② The checkpoints that translate a language pair, directly or through a pivot language."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.backend import Model
from model.checkpoint.card import Pair
from model.errors import InputError, UnsupportedLanguageError
from model.text.languages import canonical_code, known_code


@dataclass(frozen=True)
class Hop:
    """One translation of a route: the checkpoint, and its source and target language."""

    model: Model
    pair: Pair


@dataclass(frozen=True)
class Route:
    """How a text is translated from one language into another.

    Attributes:
        hops: In order, at least one; the target of each is the source of the next.
    """

    hops: tuple[Hop, ...]

    @cached_property
    def models(self) -> str:
        """Names of the checkpoints in order: `de-en>en-fr`."""
        return ">".join(hop.model.card.name for hop in self.hops)

    @cached_property
    def versions(self) -> str:
        """Versions of the checkpoints, in the same form."""
        return ">".join(hop.model.version for hop in self.hops)

    @cached_property
    def pivot(self) -> str | None:
        """The pivot language; None on a direct route."""
        return ">".join(hop.pair[0] for hop in self.hops[1:]) or None


class Catalogue:
    """The checkpoints by language pair.

    A pair that no checkpoint translates goes through a pivot language if two checkpoints together can:
    through English if possible, else through the first possible language that the checkpoints name.

    Args:
        models: In order of preference.
        pivots: Whether texts may go through a pivot language.

    Attributes:
        models: All checkpoints, in order of preference.
        sources: Every source language of some checkpoint.
        languages: Every source or target language of some checkpoint.
    """

    def __init__(self, models: Sequence[Model], *, pivots: bool = True) -> None:
        self.models = tuple(models)
        self._direct: dict[str, dict[str, Model]] = {}
        for model in models:
            for source, target in model.card.pairs:
                self._direct.setdefault(source, {}).setdefault(target, model)
        self.sources = tuple(self._direct)
        targets = [target for direct in self._direct.values() for target in direct]
        self.languages = tuple(dict.fromkeys([*self.sources, *targets]))
        named = dict.fromkeys(code for model in models for pair in model.card.pairs for code in pair)
        self._pivots = sorted(named, key=lambda code: canonical_code(code) != "en") if pivots else []
        self._targets = {source: self._all_targets(source) for source in self.sources}
        self._sources_of: dict[tuple[str, str | None], tuple[str, ...]] = {}
        self._routes: dict[tuple[Pair, str | None], Route] = {}

    def targets(self, source: str, model: str | None = None) -> tuple[str, ...]:
        """Target languages of `source`: of the named checkpoint, else on any route."""
        return self._targets.get(source, ()) if model is None else self.named(model).card.targets(source)

    def sources_of(self, target: str, model: str | None = None) -> tuple[str, ...]:
        """Languages that can be translated into `target`: by the named checkpoint, else on any route."""
        known = self._sources_of.get((target, model))
        if known is None:
            known = tuple(code for code in self.languages if target in self.targets(code, model))
            self._sources_of[target, model] = known
        return known

    def language(self, field: str, code: str) -> str:
        """Our code of a language as users write it: `EN` and `en-GB` mean `en`, `pt-br` means `pt-BR`.

        Raises:
            UnsupportedLanguageError: If no checkpoint knows it.
        """
        known = known_code(code, self.languages)
        if known is None:
            raise UnsupportedLanguageError(field, code, self.languages)
        return known

    def named(self, name: str) -> Model:
        """The checkpoint of this name.

        Raises:
            InputError: If there is none.
        """
        for model in self.models:
            if model.card.name == name:
                return model
        names = ", ".join(model.card.name for model in self.models)
        raise InputError(f"`model` must be one of {names}", "model")

    def route(self, pair: Pair, name: str | None) -> Route:
        """The route of a language pair: through the named checkpoint, else the shortest.

        Raises:
            InputError: If no checkpoint has this name.
            UnsupportedLanguageError: If that checkpoint, or all of them together, cannot.
        """
        route = self._routes.get((pair, name))
        if route is None:
            route = self._routes[pair, name] = self._find_route(pair, name)
        return route

    def _find_route(self, pair: Pair, name: str | None) -> Route:
        source, target = pair
        if name is not None:
            model = self.named(name)
            model.card.require_pair(source, target)
            return _direct(model, pair)
        if target in (direct := self._direct.get(source, {})):
            return _direct(direct[target], pair)
        if target in self.targets(source):
            return self._pivot_route(source, target)
        if source not in self.sources:
            raise UnsupportedLanguageError("source", source, self.sources)
        raise UnsupportedLanguageError("target", target, self.targets(source))

    def _pivot_route(self, source: str, target: str) -> Route:
        direct = self._direct[source]
        pivot = next(code for code in self._pivots if code in direct and target in self._direct.get(code, ()))
        second = self._direct[pivot][target]
        return Route((Hop(direct[pivot], (source, pivot)), Hop(second, (pivot, target))))

    def _all_targets(self, source: str) -> tuple[str, ...]:
        """Target languages of a source language: those of a direct route first."""
        direct = self._direct[source]
        reachable = {source, *direct}
        for code in self._pivots:
            if len(reachable) == len(self.languages):
                break  # as with one model of all languages, where each could be a pivot
            if code in direct:
                reachable.update(self._direct.get(code, ()))
        indirect = reachable - direct.keys() - {source}
        return (*direct, *(code for code in self.languages if code in indirect))


def _direct(model: Model, pair: Pair) -> Route:
    return Route((Hop(model, pair),))
