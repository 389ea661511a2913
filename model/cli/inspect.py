"""`dragoman inspect`: the content of a checkpoint folder, after verifying it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.options import checkpoint_argument

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint

Report = Mapping[str, object]


@click.command()
@checkpoint_argument
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def inspect(checkpoint: Path, as_json: bool) -> None:
    """Verify CHECKPOINT and show what it holds.

    CHECKPOINT is a checkpoint folder, or a folder that holds one. The report has its configuration,
    parameters, languages, tokenizer, provenance and checksums. A broken folder is refused with the name of
    the file or tensor at fault.
    """
    from model.checkpoint.folder import load_checkpoint

    report = describe(load_checkpoint(checkpoint))
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else "\n".join(_lines(report)))


def describe(checkpoint: "Checkpoint") -> Report:
    """Returns a description of a checkpoint as JSON values."""
    card, tokenizer = checkpoint.card, checkpoint.tokenizer
    return {
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "languages": [f"{source} → {target}" for source, target in card.pairs],
        "limits": {"max_source_length": card.max_source_length, "max_target_length": card.max_target_length},
        "parameters": _parameters(checkpoint),
        "architecture": checkpoint.config.to_dict(),
        "tokenizer": {
            "shared": tokenizer.is_shared,
            "source_vocab_size": tokenizer.source_vocab_size,
            "target_vocab_size": tokenizer.target_vocab_size,
            "special_ids": {name: getattr(tokenizer, f"{name}_id") for name in ("pad", "bos", "eos", "unk")},
            "language_tags": dict(tokenizer.language_tags),
        },
        "decoding": card.decoding.to_dict(),
        "provenance": {key: value for key, value in checkpoint.provenance.items() if key != "files"},
        "files": checkpoint.provenance["files"],
    }


def _parameters(checkpoint: "Checkpoint") -> Report:
    from model.network.parameters import count_parameters, parameter_shapes

    shapes = parameter_shapes(checkpoint.config)
    return {
        "total": count_parameters(shapes),
        "without_embeddings": count_parameters(shapes, embeddings=False),
        "stored_as": sorted(set(checkpoint.weights.dtypes.values())),
        "bytes": checkpoint.weights.nbytes,
    }


def _lines(report: Report, depth: int = 0) -> Iterator[str]:
    """Yields the description as lines, one for each value, nested values indented."""
    indent = "  " * depth
    for key, value in report.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, depth + 1)
        else:
            yield f"{indent}{key}: {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
