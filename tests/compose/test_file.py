"""compose.yaml and the image: structure, rights, and the command line of the service."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from docs.site import variablespage
from tests import forked

OURS = ("bench", "sign", "scheduler", "worker")
SYSTEMS = {"chroma", "pgvector", "mem0", "qdrant", "weaviate", "agent-memory-server", "letta", "hindsight"}


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(root / "compose.yaml")
    return found


def test_the_file_is_valid_by_the_compose_specification(root: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_volumes_secrets_and_dependencies_of_each_service_are_defined(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source.startswith("./") or source in compose["volumes"], volume
        for secret in service.get("secrets", ()):
            assert secret in compose["secrets"]
        for needed in service.get("depends_on", ()):
            assert needed in compose["services"]


def test_the_profiles_are_those_in_the_guide(compose: dict[str, Any], root: Path) -> None:
    services = compose["services"]
    assert [name for name, service in services.items() if "profiles" not in service] == ["bench"]
    profiles = {profile for service in services.values() for profile in service.get("profiles", ())}
    assert profiles == {"cluster", "sign"} | SYSTEMS
    guide = (root / "docs/server.md").read_text()
    assert all(f"`{profile}`" in guide for profile in profiles)


def test_a_variable_of_the_file_that_bench_reads_too_has_the_same_meaning(root: Path) -> None:
    text = (root / "compose.yaml").read_text()
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", text))
    assert "BENCH_SIGNING_KEY_FILE" in used and "`BENCH_SIGNING_KEY_FILE`" in (root / "docs/server.md").read_text()
    assert not used & {*variablespage.OURS, *variablespage.OF_THE_PROCESS}, "the service bench gets them from .env"


def test_ports_are_published_on_the_loopback_address_only(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    assert compose["services"]["bench"]["ports"] == ["127.0.0.1:${BENCH_PORT:-3000}:3000"]


def test_images_are_pinned_by_version(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert re.search(r":v?\d+\.\d+", service["image"]), service["image"]


def test_each_system_has_a_health_check_a_digest_variable_and_a_data_volume(
    compose: dict[str, Any],
) -> None:
    systems = {name: one for name, one in compose["services"].items() if SYSTEMS & {*one.get("profiles", ())}}
    assert systems.keys() >= SYSTEMS
    for name, service in systems.items():
        assert service["healthcheck"]["test"], name
        assert "build" in service or re.search(r"\$\{[A-Z0-9_]+_DIGEST:-\}$", service["image"]), name
        data = [
            *service.get("volumes", ()),
            *(systems[one].get("volumes", ()) for one in service.get("depends_on", ())),
        ]
        assert data, f"{name} loses its data with its container"


def test_our_services_are_read_only_and_have_no_capabilities(compose: dict[str, Any]) -> None:
    for name in OURS:
        service = compose["services"][name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"]


def test_only_the_service_sign_has_the_signing_key(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert [name for name, service in services.items() if "signing_key" in service.get("secrets", ())] == ["sign"]
    assert services["sign"]["network_mode"] == "none"
    assert "MEMORYBENCH_SIGNING_KEY_FILE" not in services["bench"]["environment"]


def test_the_token_is_in_a_volume_and_the_stop_grace_period_is_above_ten_seconds(compose: dict[str, Any]) -> None:
    bench = compose["services"]["bench"]
    token = Path(bench["environment"]["MEMORYBENCH_TOKEN_FILE"])
    assert any(volume.partition(":")[2] == str(token.parent) for volume in bench["volumes"])
    assert int(bench["stop_grace_period"].removesuffix("s")) > 10
    assert "readyz" in bench["healthcheck"]["test"][-1]


def test_the_image_runs_as_user_bench_and_takes_its_base_as_an_argument(root: Path) -> None:
    text = (root / "Dockerfile").read_text()
    assert text.count("FROM ${BASE_IMAGE}") == 2 and re.search(r"^USER bench$", text, re.MULTILINE)
    sent = {line.removeprefix("!") for line in (root / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    for source in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        for part in source.split():
            assert (root / part).exists(), part
            assert any(one == part or one.startswith(f"{part}/") for one in sent), f"{part} is not sent to the builder"


def test_the_command_line_of_the_service_starts_the_service(
    compose: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [part if part != "3000" else "0" for part in compose["services"]["bench"]["command"]]
    monkeypatch.setenv("MEMORYBENCH_TOKEN_FILE", str(tmp_path / "token" / "token"))
    process = forked.Popen(
        [sys.executable, "-m", "bench", "--workspace", str(tmp_path), *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().removeprefix("listening on ").strip()
        assert "/login?token=" in process.stdout.readline()
        with urllib.request.urlopen(f"{url}/api/v1/readyz", timeout=120) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143
