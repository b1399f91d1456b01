"""Writes docs/release-notes/VERSION.md: what changed for users, then the commits.

The same repository and the same version always give the same file.
"""

import re
import subprocess
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"git {arguments[0]} failed")
    return done.stdout


def last_tag():
    """The newest tag that leads here; none before the first release."""
    try:
        return git("describe", "--tags", "--abbrev=0").strip()
    except RuntimeError:
        return ""


def unreleased(changelog):
    """The text below `## [Unreleased]`, up to the next version."""
    found = re.search(r"^## \[Unreleased\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("CHANGELOG.md has no section `## [Unreleased]`")
    text = found.group(1).strip()
    if not text:
        raise ValueError("the section `## [Unreleased]` of CHANGELOG.md is empty: there is nothing to release")
    return text


def main(version: str, since: str = "") -> dict:
    if not VERSION.fullmatch(version):
        raise ValueError(f"`{version}` is not a version, e.g. 1.2.0")
    since = since or last_tag()
    changes = unreleased(Path("CHANGELOG.md").read_text(encoding="utf-8"))
    span = "HEAD"
    if since:
        # A name that begins with a dash must not become an option.
        base = git("rev-parse", "--verify", "--quiet", "--end-of-options", since + "^{commit}").strip()
        span = base + "..HEAD"
    subjects = git("log", "--no-merges", "--reverse", "--topo-order", "--format=%s", span).splitlines()
    lines = [f"# {version}", "", changes, "", "## Commits", ""]
    lines += [f"- {subject}" for subject in subjects] or ["None."]
    path = Path("docs/release-notes") / f"{version}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sections = re.findall(r"^### (.+)$", changes, re.MULTILINE)
    return {"path": str(path), "commits": len(subjects), "sections": sections}
