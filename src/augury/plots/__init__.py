"""Figures of a run: how it went, what the model believes, and whether to believe it.

Every function takes a :class:`Result`, an :class:`Optimizer` or a study of Optuna's, and returns a
`plotly.graph_objects.Figure`; :func:`save` writes one to a file.
"""

from augury._errors import UnsupportedError

try:
    import plotly  # noqa: F401
except ImportError as error:
    raise UnsupportedError(
        'augury.plots needs Plotly; it is not installed. Install it with pip install "augury[plots]".'
    ) from error

from augury.plots.belief import belief
from augury.plots.calibration import calibration
from augury.plots.files import save
from augury.plots.progress import progress, regret
from augury.plots.suggestions import accuracy, seconds

__all__ = ["accuracy", "belief", "calibration", "progress", "regret", "save", "seconds"]
