"""The checkpoint that comes with Dragoman."""

from pathlib import Path

from model.checkpoint.manifest import checkpoint_folders

ROOT = Path(__file__).parents[1]
(EMBEDDED,) = checkpoint_folders(ROOT / "checkpoints")
RECIPE = ROOT / "checkpoints" / "recipe"
NAME = EMBEDDED.name
WEIGHTS = min(file.name for file in EMBEDDED.glob("*.safetensors"))
