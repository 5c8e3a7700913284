"""The judge that compares words: a stand-in for a language model."""
