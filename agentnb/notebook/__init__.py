"""Jupyter: magics, live display, tool cells. The only place that knows IPython and ipywidgets."""
