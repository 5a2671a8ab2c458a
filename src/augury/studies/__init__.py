"""Optuna studies: Augury's algorithms as a sampler."""
