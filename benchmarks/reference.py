"""What texts become by our PyTorch path in float32, which everything else is measured against."""

from benchmarks.traffic import Load
from model.checkpoint.folder import Checkpoint
from model.decoding.factory import torch_factory
from model.translation.translator import Translator


def reference_translations(checkpoint: Checkpoint, load: Load) -> list[str]:
    """The translation of each of a load's texts, in their order."""
    translator = Translator.of(checkpoint, torch_factory(checkpoint, "cpu", "float32"))
    translations: dict[int, str] = {}
    for limit in {text.max_length for text in load.texts}:
        chosen = [index for index, text in enumerate(load.texts) if text.max_length == limit]
        translated = translator.translate(
            [load.texts[index].text for index in chosen],
            source=load.source,
            target=load.target,
            options=checkpoint.card.options({**load.decoding, "max_length": limit}),
        )
        translations |= {index: each.text for index, each in zip(chosen, translated, strict=True)}
    return [translations[index] for index in range(len(load.texts))]
