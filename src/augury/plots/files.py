"""Figures as files."""

import os
import shutil
from pathlib import Path

from plotly import graph_objects as go

from augury._errors import StorageError, UnsupportedError

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, SCALE = 1000, 600, 2  # of a .png, where the figure does not say


def save(figure: go.Figure, path: str | Path) -> None:
    """Write a figure to a file, whose name ends in .html or .png.

    An .html file holds all it needs and works offline. A .png is drawn by Kaleido with a Chromium or
    Chrome, found on the PATH or by the variable BROWSER_PATH.
    """
    file = Path(path)
    if file.suffix not in (".html", ".png"):
        raise UnsupportedError(
            f"a figure's file must end in .html or .png; got {str(path)!r}. Name it so."
        )
    content = _page(figure) if file.suffix == ".html" else _picture(figure)
    try:
        file.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{path} must be writable; got: {error.strerror}. Choose another.") from error


def _page(figure: go.Figure) -> bytes:
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
    return page.encode()


def _picture(figure: go.Figure) -> bytes:
    try:
        import kaleido
        from kaleido.errors import ChromeNotFoundError
    except ImportError as error:
        raise UnsupportedError(
            'a .png needs Kaleido; it is not installed. Install it with pip install "augury[plots]".'
        ) from error
    size = {"width": figure.layout.width or WIDTH, "height": figure.layout.height or HEIGHT}
    found = (shutil.which(name) for name in BROWSERS)  # Kaleido does not look for all of them
    browser = os.environ.get("BROWSER_PATH") or next(filter(None, found), None)
    try:
        picture: bytes = kaleido.calc_fig_sync(
            figure,
            opts={"format": "png", "scale": SCALE, **size},
            kopts={"path": browser, "mathjax": False},  # which would come from the network
        )
    except ChromeNotFoundError as error:
        raise UnsupportedError(
            "a .png needs Chromium or Chrome; got none. Install one, or set BROWSER_PATH to it, or save "
            "an .html file."
        ) from error
    return picture
