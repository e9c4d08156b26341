"""Read, render and validate the deployment examples, with tools in environments of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard, cast

from proxy.settings.load import load_settings
from proxy.settings.table import SETTINGS, variable_of
from tests.integration.cli_process import Done
from tests.integration.clients.environments import python_environment
from tests.integration.debian import of_release

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "examples" / "kubernetes"
COMPOSE = ROOT / "examples" / "docker-compose"

Json = dict[str, Any]

_READ = """
import json, sys, yaml
print(json.dumps([document for document in yaml.safe_load_all(sys.stdin) if document]))
"""
_WRITE = "import json, sys, yaml; yaml.safe_dump_all(json.load(sys.stdin), sys.stdout)"


def tool(package: str, version: str, *words: str, stdin: str = "") -> Done:
    """Run a program of a package that the project does not depend on."""
    program = python_environment(package, version).parent / words[0]
    done = subprocess.run(
        [str(program), *words[1:]],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def kubernetes_validate(*words: str) -> Done:
    """The schemas of Kubernetes 1.37 and its predecessors, bundled."""
    return tool("kubernetes-validate", "1.37.0", *words)


def is_compose(file: Path) -> bool:
    """Whether a file is as the specification of Compose says."""
    words = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(file))
    return tool("check-jsonschema", "0.39.0", *words).code == 0


def composed(*files: Path) -> Done:
    """What Compose itself says of files that are used together; it needs no engine for that."""
    named = [word for file in files for word in ("--file", file.name)]
    done = subprocess.run(
        [*_compose(), *named, "config", "--quiet"],
        cwd=files[0].parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


@cache
def _compose() -> tuple[str, ...]:
    """Compose, as it is installed, else out of Debian's package."""
    if shutil.which("docker") is not None:
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ("docker", "compose")
    plugin = "usr/libexec/docker/cli-plugins/docker-compose"
    return (str(of_release("trixie", "docker-compose", plugin)),)


def read_yaml(text: str) -> list[Json]:
    documents: list[Json] = json.loads(_as_json(text))
    return documents


@cache
def _as_json(text: str) -> str:
    done = tool("kubernetes-validate", "1.37.0", "python", "-c", _READ, stdin=text)
    assert done.code == 0, done.err
    return done.out


def write_yaml(documents: list[Json], path: Path) -> Path:
    done = tool(
        "kubernetes-validate", "1.37.0", "python", "-c", _WRITE, stdin=json.dumps(documents)
    )
    assert done.code == 0, done.err
    path.write_text(done.out, encoding="utf-8")
    return path


def render(folder: Path) -> list[Json]:
    """What `kubectl kustomize` renders, as far as these examples go: resources and patches."""
    [kustomization] = read_yaml((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(kustomization) <= {"apiVersion", "kind", "namespace", "resources", "patches"}
    documents: list[Json] = []
    for name in kustomization["resources"]:
        if (folder / name).is_dir():
            documents += render(folder / name)
        else:
            documents += read_yaml((folder / name).read_text(encoding="utf-8"))
    for patch in kustomization.get("patches", []):
        [change] = read_yaml((folder / patch["path"]).read_text(encoding="utf-8"))
        [target] = [document for document in documents if _named(document) == _named(change)]
        documents[documents.index(target)] = merged(target, change)
    namespace = kustomization.get("namespace")
    for document in documents:
        if namespace is not None and document["kind"] != "Namespace":
            document["metadata"]["namespace"] = namespace
    return documents


def _named(document: Json) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list, for both type checkers."""
    return isinstance(value, list)


def merged(target: Json, change: Json) -> Json:
    """A strategic merge: maps by key, lists of named things by name, other lists replaced."""
    result = dict(target)
    for key, new in change.items():
        old = result.get(key)
        if is_list(old) and is_list(new):
            result[key] = _merged_list(old, new)
        elif isinstance(old, dict) and isinstance(new, dict):
            result[key] = merged(cast("Json", old), cast("Json", new))
        else:
            result[key] = new
    return result


def _merged_list(old: list[Any], new: list[Any]) -> list[Any]:
    key = next((k for k in ("mountPath", "name") if all(k in item for item in (*old, *new))), None)
    if key is None:
        return new
    by_key = {item[key]: item for item in old}
    for item in new:
        known = by_key.get(item[key])
        by_key[item[key]] = item if known is None else merged(known, item)
    return list(by_key.values())


def pod_of(documents: list[Json], kind: str, name: str) -> Json:
    [found] = [document for document in documents if _named(document) == (kind, name)]
    pod: Json = found["spec"]["template"]["spec"]
    return pod


def containers_of(pod: Json) -> dict[str, Json]:
    """Every container of a pod, sidecars too, by name."""
    return {item["name"]: item for item in (*pod.get("initContainers", []), *pod["containers"])}


def check_settings(given: Mapping[str, str]) -> None:
    """The variables are settings, and their values are ones that the sidecar takes."""
    files = {name: value for name, value in given.items() if name.endswith("_FILE")}
    known = {variable_of(field.name) for field in SETTINGS}
    assert files.keys() <= known
    plain = {name: value for name, value in given.items() if name not in files}
    load_settings(environment={"HOME": "/nonexistent", **plain}, check_places=False)
