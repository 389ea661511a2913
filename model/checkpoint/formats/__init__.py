"""ⓕ Export of checkpoints to CTranslate2 and Hugging Face, whose packages are imported only for an export."""
