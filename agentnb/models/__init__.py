"""Ways to ask a model; each file is one, all keep the `Model` protocol of `core/model.py`."""
