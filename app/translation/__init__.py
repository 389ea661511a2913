"""② … ⑧ One request: texts become sentences, translations become texts."""
