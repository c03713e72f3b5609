"""Hooks of the documentation site: the figures of docs/results.md lie outside docs/ and are copied into the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FIGURES = "experiments/results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the figures of the experiments to the site, at the path that they have in the repository."""
    root = Path(config.config_file_path).parent
    for figure in sorted((root / FIGURES).glob("*/*.png")):
        files.append(File.generated(config, str(figure.relative_to(root)), abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the links of a page to those figures relative to the site."""
    return markdown.replace(f"](../{FIGURES}/", f"]({FIGURES}/")
