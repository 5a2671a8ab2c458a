"""What the site needs beside its pages: the repository's own documents, and docstrings in Markdown."""

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
DOCUMENTS = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}  # page: file
ROLE = re.compile(r":(?:class|func|meth|mod):`~?([\w.]+)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Let documents of the repository be pages of the site."""
    for page, name in DOCUMENTS.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


class Docstrings(griffe.Extension):
    """Markdown for the roles of docstrings, and constructors for the fields of Equinox modules."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn :class:`Name` into code."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """A constructor of the documented fields, where the class is not said to be a dataclass."""
        text = cls.docstring.value if cls.docstring is not None else ""
        if "Args:" not in text or "__init__" in cls.members or cls.decorators:
            return
        given = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        for field in cls.attributes.values():
            if re.search(rf"^ *{field.name}:", text, re.MULTILINE):
                kind = griffe.ParameterKind.positional_or_keyword
                known = griffe.Parameter(
                    field.name, annotation=field.annotation, kind=kind, default=_default(field)
                )
                given.append(known)
        made = griffe.Function("__init__", parameters=griffe.Parameters(*given), parent=cls)
        cls.set_member("__init__", made)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show the settings of a run, with their defaults, where `minimize` takes them by keyword."""
        run = pkg["run"]
        named = [one for one in run["_run"].parameters if one.name != "direction"]
        run["minimize"].parameters = run["maximize"].parameters = griffe.Parameters(*named)


def _default(field: griffe.Attribute) -> Any:
    """The default value that a field has, by itself or as an argument of `field`."""
    if not isinstance(field.value, griffe.ExprCall):
        return field.value
    named = (one for one in field.value.arguments if getattr(one, "name", "") == "default")
    return next((one.value for one in named if isinstance(one, griffe.ExprKeyword)), None)
