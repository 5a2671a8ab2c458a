"""What evaluates functions elsewhere: executors of `concurrent.futures`."""

from augury.executors.clusters import dask, ray

__all__ = ["dask", "ray"]
