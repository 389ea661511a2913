"""Whether fixed shapes and graphs give the translations of the exact runner, and both those of a CPU."""

from collections.abc import Mapping, Sequence

import torch

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.report import Table
from benchmarks.work import random_sentences
from model.decoding.engine import DecodingEngine
from model.decoding.runner import Result, Runner
from model.errors import TranslationError
from model.request import DecodeOptions, DecodeRequest

SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "greedy, no n-gram twice": {
        "strategy": "greedy",
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.2,
        "min_length": 4,
    },
    "sample": {"strategy": "sample", "temperature": 0.8, "top_k": 20},
    "sample, nucleus": {"strategy": "sample", "top_p": 0.9, "min_p": 0.001},
    "beam 4": {"strategy": "beam", "beam_size": 4, "num_hypotheses": 2},
    "beam 4, coverage": {"strategy": "beam", "beam_size": 4, "coverage_penalty": 0.2, "stop": "all"},
}
_COLUMNS = ("precision", "search", "compared", "same translations", "largest difference of a score")
_SHORTEST = 4
_FEW_TOKENS_A_STEP = 64


def check(plan: Plan) -> Finding:
    """Decode sentences of many lengths, which join a few at a time, with every search."""
    rows: list[tuple[str, ...]] = []
    results: list[Mapping[str, object]] = []
    for precision in dict.fromkeys((torch.float32, plan.precision)):
        found = _decode(plan, precision)
        for (search, compared), pairs in found.items():
            same = sum(_tokens(one) == _tokens(other) for one, other in pairs)
            apart = max(abs(_score(one) - _score(other)) for one, other in pairs)
            name = str(precision).removeprefix("torch.")
            rows.append((name, search, compared, f"{same} of {len(pairs)}", f"{apart:.2g}"))
            results.append(
                {
                    "kind": "correctness",
                    "precision": name,
                    "search": search,
                    "compared": compared,
                    "same": same,
                    "of": len(pairs),
                    "largest_difference": apart,
                }
            )
    wrong = any(r["precision"] == "float32" and r["same"] != r["of"] for r in results)
    note = "Rounding tips near ties: only in float32 must all translations be the same."
    table = Table(title="Correctness", columns=_COLUMNS, rows=rows)
    return Finding(tables=[table], results=results, notes=[note], is_wrong=wrong)


def _decode(plan: Plan, precision: torch.dtype) -> dict[tuple[str, str], list[tuple[Result, Result]]]:
    network, processor = plan.network(precision), torch.device("cpu")
    static, exact = plan.static_runner(network, widths=(1, 4)), plan.exact_runner(network)
    reference = plan.exact_runner(plan.network(torch.float32, processor), processor)
    found: dict[tuple[str, str], list[tuple[Result, Result]]] = {}
    for search, options in SEARCHES.items():
        requests = _requests(plan, options)
        by_static, by_exact = _run(plan, static, requests), _run(plan, exact, requests)
        found[search, "static, exact"] = list(zip(by_static, by_exact, strict=True))
        if precision == torch.float32:
            few = requests[: max(2, len(requests) // 8)]
            by_processor = _run(plan, reference, few)
            found[search, f"exact, {processor}"] = list(zip(by_exact, by_processor, strict=False))
    return found


def _requests(plan: Plan, options: Mapping[str, object]) -> list[DecodeRequest]:
    """Translations end at lengths of their own, so that slots are taken again and again."""
    sources = random_sentences(plan.config, plan.sentences, plan.source_tokens, plan.seed)
    spread = max(1, plan.tokens - _SHORTEST)
    return [
        DecodeRequest(
            tuple(ids[-max(2, len(ids) - i % 9) :]),
            DecodeOptions.from_dict({**options, "max_length": _SHORTEST + 7 * i % spread, "seed": i}),
        )
        for i, ids in enumerate(sources)
    ]


def _run(plan: Plan, runner: Runner, requests: Sequence[DecodeRequest]) -> list[Result]:
    engine = DecodingEngine(runner, plan.config, max_batch_tokens=10**6, max_encode_tokens=_FEW_TOKENS_A_STEP)
    return engine.decode(requests)


def _tokens(result: Result) -> list[tuple[int, ...]]:
    return [] if isinstance(result, TranslationError) else [h.token_ids for h in result]


def _score(result: Result) -> float:
    return 0.0 if isinstance(result, TranslationError) else result[0].score
