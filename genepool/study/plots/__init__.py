"""Figures, drawn from rows of the analysis. The only place that knows matplotlib."""
