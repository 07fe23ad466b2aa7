"""Packages that only some features need, and how to install them (pyproject.toml, optional-dependencies)."""

import importlib

from narrows._native import NarrowsError

# By package, the extra that has it.
EXTRAS = {
    "matplotlib": "plot",
    "polars": "frames",
    "pandas": "frames",
    "scipy": "calibrate",
    "numpy": "calibrate",
    "distributed": "sweep",
    "dask": "sweep",
    "optuna": "optimise",
}


def how_to_install(package: str) -> str:
    """The command that installs it."""
    extra = EXTRAS.get(package.partition(".")[0])
    return f"pip install {package}" if extra is None else f"pip install 'narrows[{extra}]'"


def need(feature: str, *packages: str) -> None:
    """Raises NarrowsError where a package is missing that a feature needs."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            missing = error.name or package
            raise NarrowsError(f"{feature} needs the Python package {missing}: {how_to_install(missing)}") from None
