"""What all tests share."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _compiler(request):
    """Programs of modules marked `once` run a few times: to optimize them would take most of the time."""
    if request.node.get_closest_marker("once") is None:
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
