"""What the site needs beside the pages of this folder: pages from elsewhere in the repository, and notebooks.

Links are those of the repository. One that leads to a file which the site does not have becomes its text.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ELSEWHERE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "results/README.md",
    "results/any_learner.md",
    "results/everyday.md",
    "results/paper_items.md",
    "results/real_tables.md",
    "results/reproduction.md",
    "results/sketched_pruning.md",
)
_LINK = re.compile(r"(?<!\!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|!\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages from elsewhere, the pictures they show, and the notebooks as pages."""
    for name in ELSEWHERE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
        for _, _, _, picture in _LINK.findall((ROOT / name).read_text("utf-8")):
            where = posixpath.normpath(posixpath.join(posixpath.dirname(name), picture)) if picture else ""
            target = where.removeprefix("docs/")
            if where and (ROOT / where).is_file() and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / where)))
    for notebook in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        files.remove(found) if (found := files.get_file_from_path(f"notebooks/{notebook.name}")) else None
        files.append(
            File.generated(
                config, f"notebooks/{notebook.stem}.md", content=as_markdown(notebook.read_text("utf-8"))
            )
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them."""
    here = page.file.src_uri
    origin = here if here in ELSEWHERE else f"docs/{here}"

    def fitted(match: re.Match[str]) -> str:
        text, target, alt, picture = match.groups()
        link = target or picture
        if re.match(r"[a-z]+:|#", link):
            return match.group(0)
        path, _, anchor = link.partition("#")
        where = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        site = where.removeprefix("docs/")
        if files.get_file_from_path(site) is None:
            return text if target else alt
        new = posixpath.relpath(site, posixpath.dirname(here) or ".") + (f"#{anchor}" if anchor else "")
        return f"[{text}]({new})" if target else f"![{alt}]({new})"

    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)  # links in code are code
    return "".join(part if at % 2 else _LINK.sub(fitted, part) for at, part in enumerate(parts))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Takes out the one script that the theme would fetch from elsewhere."""
    return re.sub(r'<script src="https://[^"]*"></script>', "", output)


def as_markdown(notebook: str) -> str:
    """A notebook with its outputs as a page."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        if text := "".join(map(_output_text, cell["outputs"])).strip("\n"):
            parts.append(
                f"```{'table' if '──' in text else 'text'}\n{text}\n```"
            )  # lines of text are wrapped
    return "\n\n".join(parts) + "\n"


def _output_text(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return "".join(output["text"]) if output["name"] == "stdout" else ""
    return "".join(output["data"].get("text/plain", "")) if output["output_type"] == "execute_result" else ""
