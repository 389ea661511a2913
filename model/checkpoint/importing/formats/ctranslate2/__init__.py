"""CTranslate2's model folders: `folder` reads one, with its `model.bin` and the network in it."""
