"""A decoder too slow to be wrong: one sentence, no cache, no padding, Python loops over floats."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import torch

from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis, Phrase
from model.decoding.pytorch.search.phrases import COST_OF_PLACE, COST_OF_TOKEN, ERROR_OF_TOKEN
from model.decoding.sentence import (
    FIRST_MULTIPLIER,
    GOLDEN_GAMMA,
    ROW_STRIDE,
    SECOND_MULTIPLIER,
    length_bounds,
)
from model.network.transformer import EncoderOutput, Transformer

INF = math.inf
Tokens = tuple[int, ...]


def uniform(seed: int, row: int, position: int) -> float:
    """The number in [0, 1) that selects the token of a row at a position; see `model.decoding.sentence`."""
    mask = 2**64 - 1
    bits = (seed + (row * ROW_STRIDE + position + 1) * GOLDEN_GAMMA) & mask
    bits = ((bits ^ (bits >> 30)) * FIRST_MULTIPLIER) & mask
    bits = ((bits ^ (bits >> 27)) * SECOND_MULTIPLIER) & mask
    bits ^= bits >> 31
    return float((bits >> 40) / 2**24)


@dataclass(frozen=True)
class Partial:
    """A hypothesis under way: what it is ranked by, its tokens and their log-probabilities."""

    total: float
    tokens: Tokens
    log_probs: tuple[float, ...]


@dataclass
class Known:
    """What references of equal networks have computed: engines that are compared with them are many."""

    encoded: dict[Tokens, EncoderOutput] = field(default_factory=dict)
    log_probs: dict[tuple[Tokens, Tokens], list[float]] = field(default_factory=dict)
    attention: dict[tuple[Tokens, Tokens], list[list[float]]] = field(default_factory=dict)
    decoded: dict[DecodeRequest, list[Hypothesis]] = field(default_factory=dict)


_KNOWN: dict[bytes, Known] = defaultdict(Known)


def _digest(network: Transformer) -> bytes:
    content = hashlib.sha256(repr(network.config).encode())
    for name, tensor in network.state_dict().items():
        content.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return content.digest()


class ReferenceDecoder:
    """Decodes by the definition of each strategy, with a full pass of the decoder for every prefix."""

    def __init__(self, network: Transformer) -> None:
        self._network = network
        self._config = network.config
        self._known = _KNOWN[_digest(network)] if isinstance(network, torch.nn.Module) else Known()
        self._decoded = self._known.decoded

    def decode(self, request: DecodeRequest) -> list[Hypothesis]:
        if request not in self._decoded:
            strategies = {"greedy": self._greedy, "beam": self._beam, "sample": self._sample}
            self._decoded[request] = strategies[request.options.strategy](request)
        return self._decoded[request]

    def log_probs(self, source: Tokens, target: Tokens) -> list[float]:
        """Of every token that may follow this target."""
        if (source, target) not in self._known.log_probs:
            self._compute(source, [target])
        return self._known.log_probs[source, target]

    def _compute(self, source: Tokens, targets: Sequence[Tokens]) -> None:
        """Of targets of one length, which pass the network together: that takes half of the time."""
        unknown = [target for target in targets if (source, target) not in self._known.log_probs]
        if not unknown:
            return
        fed = torch.tensor([[self._config.decoder_start_id, *target] for target in unknown])
        with torch.inference_mode():
            if source not in self._known.encoded:
                self._known.encoded[source] = self._network.encode(torch.tensor([source]))
            encoded, count = self._known.encoded[source], len(unknown)
            repeated = EncoderOutput(
                encoded.states_NSM.expand(count, -1, -1), encoded.mask_NS.expand(count, -1)
            )
            logits = self._network.project(self._network.decode(fed, repeated))[:, -1]
        for target, row in zip(unknown, logits.log_softmax(-1).tolist(), strict=True):
            self._known.log_probs[source, target] = row

    def ranking(self, request: DecodeRequest, produced: Tokens) -> list[float]:
        """Log-probabilities under the constraints."""
        position, prefix = len(produced), request.start_ids + request.prefix_ids
        scores = self.log_probs(request.source_ids, produced)
        if position < len(request.start_ids):
            return [0.0 if token == prefix[position] else -INF for token in range(len(scores))]
        if position < len(prefix):
            return [s if token == prefix[position] else -INF for token, s in enumerate(scores)]
        rescaled = (
            s * request.options.repetition_penalty if token in produced else s
            for token, s in enumerate(scores)
        )
        return [-INF if self._forbidden(request, produced, token) else s for token, s in enumerate(rescaled)]

    def _forbidden(self, request: DecodeRequest, produced: Tokens, token: int) -> bool:
        options, config = request.options, self._config
        shortest, _ = length_bounds(request, config)
        if token in (config.pad_id, config.bos_id, *options.suppress_ids):
            return True
        if token == config.eos_id and (len(produced) + 1 < shortest or missing(request, produced)):
            return True
        is_bound = (
            request.word_parts and request.word_parts[token] and _has_completed_phrase(request, produced)
        )
        if is_bound and not _continues_phrase(request, (*produced, token)):
            return True
        return options.no_repeat_ngram_size > 0 and _repeats((*produced, token), options.no_repeat_ngram_size)

    def _longest(self, request: DecodeRequest) -> int:
        return length_bounds(request, self._config)[1]

    def _extend(self, request: DecodeRequest, partial: Partial, token: int, score: float) -> Partial:
        log_prob = self.log_probs(request.source_ids, partial.tokens)[token]
        return Partial(partial.total + score, (*partial.tokens, token), (*partial.log_probs, log_prob))

    def _greedy(self, request: DecodeRequest) -> list[Hypothesis]:
        return [self._walk(request, lambda scores, _: scores.index(max(scores)))]

    def _sample(self, request: DecodeRequest) -> list[Hypothesis]:
        options = request.options
        draws = [
            self._walk(
                request,
                lambda scores, position, row=row: _draw(
                    scores, options, uniform(options.seed, row, position)
                ),
            )
            for row in range(options.num_hypotheses)
        ]
        return sorted(draws, key=lambda draw: (not draw.finished, -draw.score))

    def _walk(self, request: DecodeRequest, choose: Callable[[list[float], int], int]) -> Hypothesis:
        partial = Partial(0.0, (), ())
        while len(partial.tokens) < self._longest(request):
            scores = self.ranking(request, partial.tokens)
            token = choose(scores, len(partial.tokens))
            partial = self._extend(request, partial, token, scores[token])
            if token == self._config.eos_id:
                break
        return self._hypothesis(request, partial, coverage=False)

    def _beam(self, request: DecodeRequest) -> list[Hypothesis]:
        options, eos = request.options, self._config.eos_id
        beam_size, count = options.beam_size, options.num_hypotheses
        live, finished = [Partial(0.0, (), ())], []
        for length in range(1, self._longest(request) + 1):
            best = sorted(self._continuations(request, live), key=lambda p: -p.total)
            room = self._longest(request) - length - 1
            if request.phrases:
                scores = sorted((self._hypothesis(request, p).score for p in finished), reverse=True)
                worst = scores[count - 1] if len(scores) >= count else -INF
                to_beat = worst * divisor(self._longest(request), options)
                best = _pruned(request, best, room, to_beat)
            best = best[: 2 * beam_size]
            finished += [p for p in best[:beam_size] if p.tokens[-1] == eos]
            live = [p for p in best if p.tokens[-1] != eos][:beam_size]
            if options.limit_finishes and length == self._longest(request):
                finished += live
            if options.stop == "first" and best and best[0].tokens[-1] == eos:
                break
            ended, alive = (
                sorted((self._hypothesis(request, p).score for p in found), reverse=True)
                for found in (finished, live)
            )
            enough = beam_size if options.stop == "pool" else max(options.patience * beam_size, count)
            if options.stop in ("patience", "count", "pool") and len(finished) >= enough:
                place = beam_size - 1 if options.stop == "pool" else 0
                if options.stop == "count" or not alive or ended[place] >= alive[0]:
                    break
        found = [self._hypothesis(request, p) for p in finished or live]
        return sorted(found, key=lambda h: -h.score)[:count]

    def _continuations(self, request: DecodeRequest, live: Sequence[Partial]) -> Iterator[Partial]:
        self._compute(request.source_ids, [partial.tokens for partial in live])
        for partial in live:
            for token, score in enumerate(self.ranking(request, partial.tokens)):
                if score > -INF:
                    yield self._extend(request, partial, token, score)

    def all_finished(self, request: DecodeRequest) -> list[Hypothesis]:
        """Every translation within the length limit that the constraints allow, best first."""
        words = [t for t in range(self._config.target_vocab_size) if t != self._config.eos_id]
        found = []
        for length in range(self._longest(request)):
            for tokens in product(words, repeat=length):
                partial = Partial(0.0, (), ())
                for token in (*tokens, self._config.eos_id):
                    score = self.ranking(request, partial.tokens)[token]
                    if score == -INF:
                        break
                    partial = self._extend(request, partial, token, score)
                else:
                    found.append(self._hypothesis(request, partial))
        return sorted(found, key=lambda h: -h.score)

    def _hypothesis(self, request: DecodeRequest, partial: Partial, coverage: bool = True) -> Hypothesis:
        options, finished = request.options, partial.tokens[-1] == self._config.eos_id
        score = partial.total / divisor(len(partial.tokens), options)
        if coverage and options.coverage_penalty:
            score += options.coverage_penalty * self._coverage(request.source_ids, partial.tokens)
        start = len(request.start_ids)
        return Hypothesis(
            token_ids=partial.tokens[start:-1] if finished else partial.tokens[start:],
            score=score,
            log_probability=sum(partial.log_probs[start:]),
            token_log_probabilities=partial.log_probs[start:],
            finished=finished,
        )

    def _coverage(self, source: Tokens, tokens: Tokens) -> float:
        attention = self.attention(source, tokens)
        return sum(math.log(min(1.0, sum(column))) for column in zip(*attention, strict=True))

    def attention(self, source: Tokens, tokens: Tokens) -> list[list[float]]:
        """Of each target token to each source token: last layer, averaged over heads."""
        if (source, tokens) not in self._known.attention:
            assert isinstance(self._network, Transformer)
            fed = torch.tensor([[self._config.decoder_start_id, *tokens[:-1]]])
            with torch.inference_mode():
                _, maps = self._network.forward_with_attention(torch.tensor([source]), fed)
            self._known.attention[source, tokens] = maps.cross[-1][0].mean(0).tolist()
        return self._known.attention[source, tokens]


def missing(request: DecodeRequest, tokens: Tokens) -> int:
    """The fewest tokens that complete the phrases of a request one after the other."""
    unmet = _unmet(request, tokens)
    begun = [
        min(map(len, phrase)) - len(spelling) + length
        for phrase in unmet
        for spelling in phrase
        for length in range(1, len(spelling))
        if tokens[-length:] == spelling[:length]
    ]
    return sum(min(map(len, phrase)) for phrase in unmet) - max([0, *begun])


def _unmet(request: DecodeRequest, tokens: Tokens) -> list[Phrase]:
    """The phrases that are still required; equal ones as often as the tokens lack them."""
    return [
        phrase
        for i, phrase in enumerate(request.phrases)
        if _num_ends(tokens, phrase) <= request.phrases[:i].count(phrase)
    ]


def _num_ends(tokens: Tokens, phrase: Phrase) -> int:
    return sum(
        any(tokens[:end][-len(spelling) :] == spelling for spelling in phrase)
        for end in range(1, len(tokens) + 1)
    )


def _pruned(
    request: DecodeRequest, continuations: Sequence[Partial], room: int, to_beat: float
) -> list[Partial]:
    """The continuations that may lead to a result, best first: see model/decoding/pytorch/search/phrases.py.

    Args:
        request: The request, with phrases.
        continuations: All continuations of a step, by falling totals.
        room: Tokens that a hypothesis may still get before EOS.
        to_beat: The total that a hypothesis must exceed in order to be returned.
    """
    options, lacks = request.options, {each: missing(request, each.tokens) for each in continuations}
    estimates = {each: each.total - COST_OF_TOKEN * lacks[each] for each in lacks}
    goes_on = [each for each in lacks if estimates[each] > to_beat]
    room = max(room, min((lacks[each] for each in goes_on), default=0))
    width, banks = max(options.beam_size // 4, options.num_hypotheses), Counter[int]()
    best = []
    for each in sorted(goes_on, key=lambda e: -estimates[e]):
        if lacks[each] <= room:
            banks[lacks[each]] += 1
            if banks[lacks[each]] <= width:
                best.append(each)
    best = best[: 2 * options.beam_size]

    def is_worse(each: Partial, other: Partial) -> bool:
        more = lacks[each] - lacks[other]
        return estimates[each] + (COST_OF_PLACE if more < 0 else ERROR_OF_TOKEN * more) < estimates[other]

    return [each for each in best if sum(is_worse(each, other) for other in best) < width]


def _has_completed_phrase(request: DecodeRequest, tokens: Tokens) -> bool:
    return len(_unmet(request, tokens)) < len(_unmet(request, tokens[:-1]))


def _continues_phrase(request: DecodeRequest, tokens: Tokens) -> bool:
    return any(
        tokens[-length:] == spelling[:length]
        for phrase in _unmet(request, tokens[:-1])
        for spelling in phrase
        for length in range(1, len(spelling) + 1)
    )


def divisor(length: int, options: DecodeOptions) -> float:
    if options.length_penalty_form == "gnmt":
        return ((5 + length) / 6) ** options.length_penalty
    return length**options.length_penalty


def _repeats(tokens: Tokens, size: int) -> bool:
    """Whether the last n-gram has been there before."""
    ngrams = Counter(tokens[i : i + size] for i in range(len(tokens) - size + 1))
    return ngrams[tokens[-size:]] > 1


def _draw(scores: Sequence[float], options: DecodeOptions, number: float) -> int:
    weights = {t: math.exp(s / options.temperature) for t, s in enumerate(scores) if s > -INF}
    kept = sorted(weights, key=lambda t: -weights[t])
    if options.top_k:
        kept = kept[: options.top_k]
    total, nucleus = sum(weights[t] for t in kept), []
    for token in kept:
        if sum(weights[t] for t in nucleus) < options.top_p * total:
            nucleus.append(token)
    kept = [t for t in nucleus if weights[t] >= options.min_p * weights[kept[0]]]
    target, reached = number * sum(weights[t] for t in kept), 0.0
    for token in sorted(kept):
        reached += weights[token]
        if reached > target:
            return token
    return max(kept)
