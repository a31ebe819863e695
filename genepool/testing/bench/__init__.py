"""The engine against others, in one interleaved run: the ordinary way, a hand-tuned loop, and the machine itself."""
