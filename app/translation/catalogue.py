"""② Which checkpoints translate which pair of languages, directly or through a language in between."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.backend import LoadedModel
from model.checkpoint.card import Pair
from model.errors import InputError, UnsupportedLanguageError
from model.text.languages import canonical_code, known_code


@dataclass(frozen=True)
class Hop:
    """One translation on the way: which checkpoint, and from which language into which."""

    model: LoadedModel
    pair: Pair


@dataclass(frozen=True)
class Route:
    """A way from one language into another.

    Attributes:
        legs: In order of use, at least one; each begins in the language that the one before ends in.
    """

    hops: tuple[Hop, ...]

    @cached_property
    def models(self) -> str:
        """Names of the checkpoints in order of use: `de-en>en-fr`."""
        return ">".join(hop.model.card.name for hop in self.hops)

    @cached_property
    def versions(self) -> str:
        """Which weights those are, in the same form."""
        return ">".join(hop.model.version for hop in self.hops)

    @cached_property
    def pivot(self) -> str | None:
        """The language on the way; None on a direct one."""
        return ">".join(hop.pair[0] for hop in self.hops[1:]) or None


class Catalogue:
    """The loaded checkpoints, the preferred one of a pair first.

    A pair that none of them translates goes through a language between, if two together can: through
    English where that is possible, else through the first that the checkpoints name.

    Args:
        models: In order of preference.
        pivots: Whether texts may go through a language between.

    Attributes:
        models: All checkpoints, in order of preference.
        sources: Every language that some checkpoint reads.
        languages: Every language that some checkpoint reads or writes.
    """

    def __init__(self, models: Sequence[LoadedModel], *, pivots: bool = True) -> None:
        self.models = tuple(models)
        self._routes: dict[Pair, Route] = {}
        self._written: dict[str, dict[str, None]] = {}
        for model in models:
            for source, target in model.card.pairs:
                self._routes.setdefault((source, target), _direct(model, (source, target)))
                self._written.setdefault(source, {})[target] = None
        self.sources = tuple(self._written)
        targets = [target for written in self._written.values() for target in written]
        self.languages = tuple(dict.fromkeys([*self.sources, *targets]))
        named = dict.fromkeys(code for pair in self._routes for code in pair)
        self._between = sorted(named, key=lambda code: canonical_code(code) != "en") if pivots else []
        self._targets = {source: self._reachable(source) for source in self.sources}

    def targets(self, source: str, model: str | None = None) -> tuple[str, ...]:
        """Languages that `source` is translated into: by the named checkpoint, else by any way."""
        return self._targets.get(source, ()) if model is None else self.named(model).card.targets(source)

    def language(self, field: str, code: str) -> str:
        """Our code of a language as users write it: `EN` and `en-GB` mean `en`, `pt-br` means `pt-BR`.

        Raises:
            UnsupportedLanguageError: If no checkpoint knows it.
        """
        known = known_code(code, self.languages)
        if known is None:
            raise UnsupportedLanguageError(field, code, self.languages)
        return known

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

    def route(self, pair: Pair, name: str | None) -> Route:
        """The way from a language into another: by the named checkpoint, else the shortest.

        Raises:
            InputError: If no checkpoint has this name.
            UnsupportedLanguageError: If it, or all of them together, cannot.
        """
        source, target = pair
        if name is not None:
            model = self.named(name)
            model.card.require_pair(source, target)
            return _direct(model, pair)
        if pair in self._routes:
            return self._routes[pair]
        if target in self.targets(source):
            return self._detour(source, target)
        if source not in self.sources:
            raise UnsupportedLanguageError("source", source, self.sources)
        raise UnsupportedLanguageError("target", target, self.targets(source))

    def _detour(self, source: str, target: str) -> Route:
        ways = (((source, between), (between, target)) for between in self._between)
        first, second = next(way for way in ways if way[0] in self._routes and way[1] in self._routes)
        return Route(self._routes[first].hops + self._routes[second].hops)

    def _reachable(self, source: str) -> tuple[str, ...]:
        """Languages that a text may come to be in: those written at once first."""
        written = self._written[source]
        reachable = {source}.union(
            *(self._written.get(code, ()) for code in self._between if code in written)
        )
        reachable.remove(source)
        return (*written, *(code for code in self.languages if code in reachable and code not in written))


def _direct(model: LoadedModel, pair: Pair) -> Route:
    return Route((Hop(model, pair),))
