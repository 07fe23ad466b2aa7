"""How far a study is: a line in a terminal, a bar in a notebook, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What is done, the fraction of it that is over (None: not known), and more about where it is.
Progress = Callable[[str, float | None, str], None]

# What takes less is over before one has read about it.
FIRST_S = 2.0


def left(fraction: float | None, seconds: float) -> str:
    """ "25 %, 30 s left"."""
    if not fraction:
        return f"{duration(seconds)} so far"
    return f"{100 * fraction:.0f} %, {duration(seconds * (1 - fraction) / fraction)} left"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


@contextmanager
def shown(wanted: bool | Progress | None) -> Iterator[Progress | None]:
    """Who is told; None shows it where somebody is likely to look."""
    if callable(wanted):
        yield wanted
        return
    notebook = _in_notebook()
    if wanted is False or (wanted is None and not notebook and not sys.stderr.isatty()):
        yield None
        return
    begin: dict[str, float] = {}
    line: Any = _NotebookLine() if notebook else _TerminalLine()

    def show(what: str, fraction: float | None, detail: str) -> None:
        seconds = time.monotonic() - begin.setdefault(what, time.monotonic())
        if seconds > FIRST_S:
            line.show(f"{what}: {left(fraction, seconds)}{', ' if detail else ''}{detail}", fraction)

    try:
        yield show
    finally:
        line.end()


class _TerminalLine:
    def __init__(self) -> None:
        self.width = 0

    def show(self, text: str, fraction: float | None) -> None:
        bar = "" if fraction is None else f" [{'#' * round(20 * fraction):20}]"
        print(f"\r{text + bar:{self.width}}", end="", file=sys.stderr, flush=True)
        self.width = len(text + bar)

    def end(self) -> None:
        if self.width:
            print(f"\r{'':{self.width}}\r", end="", file=sys.stderr, flush=True)


class _NotebookLine:
    def __init__(self) -> None:
        self.display: Any = None

    def show(self, text: str, fraction: float | None) -> None:
        import html

        from IPython.display import HTML, display

        value = "" if fraction is None else f' value="{fraction:.3f}"'
        page = HTML(f"<progress{value} max=1></progress> {html.escape(text)}")
        if self.display is None:
            self.display = display(page, display_id=True)
        else:
            self.display.update(page)

    def end(self) -> None:
        if self.display is not None:
            from IPython.display import HTML

            self.display.update(HTML(""))
