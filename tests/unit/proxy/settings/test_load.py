"""Settings: one order of sources, no silent typo, no secret in any message."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from policy.model import Channel, Claims
from policy.ruleset import parse_ruleset
from proxy.settings.after import AfterTable, ReplaySettings, SentryTable
from proxy.settings.backend import BackendServer
from proxy.settings.judge_tables import JudgeTable
from proxy.settings.load import gate_environment, load_settings
from proxy.settings.mcp import McpServer
from proxy.settings.model import ModelUpstream
from proxy.settings.review_webhook import Receiver
from proxy.settings.table import (
    SETTINGS,
    TABLES,
    Settings,
    SettingsError,
    keys_of,
    meaning_of,
    variable_of,
)
from proxy.settings.values import Raw, unquoted, value_of
from proxy.settings.witness import WitnessTable
from tests import settings_page

SECRET = "a-secret-that-must-not-be-shown"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand somewhere harmless: the state directory may not lie below."""
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)


def load(
    tmp_path: Path, toml: str = "", env: dict[str, str] | None = None, **flags: Raw
) -> Settings:
    config = tmp_path / "mnemogate.toml"
    config.write_text(toml, "utf-8")
    home = {"HOME": str(tmp_path / "home")}
    return load_settings(flags, environment={**home, **(env or {})}, config=config)


def test_defaults_are_loopback_and_private(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 7077)
    assert (settings.admin.host, settings.admin.port) == ("127.0.0.1", 7078)
    assert settings.state == tmp_path / "home/.local/state/mnemogate"
    assert not settings.checkpoint.is_relative_to(settings.state)
    assert settings.tls_cert is None
    assert settings.agent_key is None
    assert settings.telemetry.endpoint is None


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    toml = 'listen = "127.0.0.1:1"\nadmin = "127.0.0.1:1"\nlog_level = "error"'
    env = {"MNEMOGATE_LISTEN": "127.0.0.1:2", "MNEMOGATE_ADMIN": "127.0.0.1:2"}
    settings = load(tmp_path, toml, env, listen="127.0.0.1:3")
    assert settings.listen.port == 3
    assert settings.admin.port == 2
    assert settings.telemetry.log_level == "error"


def test_unknown_names_are_errors_that_name_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MNEMOGATE_LISTNE"):
        load(tmp_path, env={"MNEMOGATE_LISTNE": "x"})
    with pytest.raises(SettingsError, match="listne"):
        load(tmp_path, 'listne = "127.0.0.1:1"')
    with pytest.raises(SettingsError, match="listne"):
        load(tmp_path, listne="127.0.0.1:1")
    with pytest.raises(SettingsError, match="table 1"):
        load(tmp_path, '[[principals]]\nid = "a"\ntenant = "a"\nuid = 1\nchanel = "user"')


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("listen", "7077", "HOST:PORT"),
        ("listen", "127.0.0.1:70000", "HOST:PORT"),
        ("listen", "127.0.0.1:\uff17", "HOST:PORT"),
        ("ruleset", "~nobody-of-this-name/rules.toml", "a path"),
        ("embedder", "gpt", "static, minilm"),
        ("log_level", "loud", "one of debug"),
        ("quota_bytes", "many", "a whole number"),
        ("quota_bytes", "1", "a whole number"),
        ("header_seconds", "nan", "a number"),
        ("header_seconds", "0", "a number"),
        ("admit_detail_share", "2", "a number from 0 to 1"),
        ("embedder", "client:none", "client:DIMENSION"),
        ("agent_key", "short", "20 to 256"),
        ("operator_key", "with spaces in the middle of it", "20 to 256"),
        ("otel_endpoint", "localhost:4318", "http://host[:port]"),
        ("otel_endpoint", "grpc://x:4317", "http://host[:port]"),
        ("otel_endpoint", "http://x:99999", "out of range"),
        ("unix_uids", "root", "a list, each of it a whole number"),
        ("otel_headers", "a=b", "no such setting; set OTEL_EXPORTER_OTLP_HEADERS"),
        ("mcp_person_seconds", "60", "no such setting; a call waits 120 seconds"),
    ],
)
def test_bad_value_names_the_setting_and_what_is_allowed(
    tmp_path: Path, name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(allowed)) as caught:
        load(tmp_path, env={f"MNEMOGATE_{name.upper()}": value})
    assert name in str(caught.value).lower()


def test_a_settings_file_of_a_user_without_a_home_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MNEMOGATE_CONFIG: must be a path"):
        load_settings(
            environment={
                "HOME": str(tmp_path),
                "MNEMOGATE_CONFIG": "~nobody-of-this-name/mnemogate.toml",
            }
        )


def test_secret_is_in_no_message_and_no_repr(tmp_path: Path) -> None:
    settings = load(tmp_path, env={"MNEMOGATE_AGENT_KEY": SECRET})
    assert settings.agent_key is not None
    assert settings.agent_key.reveal() == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)
    for name in ("MNEMOGATE_LISTEN", "MNEMOGATE_LOG_LEVEL", "MNEMOGATE_QUOTA_BYTES"):
        with pytest.raises(SettingsError) as caught:
            load(tmp_path, env={name: SECRET})
        assert SECRET not in str(caught.value)


def test_key_may_come_from_a_file_of_its_own_but_not_twice(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET + "\n")
    file.chmod(0o440)
    env = {"MNEMOGATE_OPERATOR_KEY_FILE": str(file)}
    key = load(tmp_path, env=env).operator_key
    assert key is not None
    assert key.reveal() == SECRET
    assert load(tmp_path, env=env).agent_key is None
    with pytest.raises(SettingsError, match=r"operator_key_file: .* not both"):
        load(tmp_path, env={**env, "MNEMOGATE_OPERATOR_KEY": SECRET})
    file.chmod(0o444)
    with pytest.raises(SettingsError, match="operator_key_file: must be") as caught:
        load(tmp_path, env=env)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", ["[" * 2_000, "9" * 5_000])
def test_file_beyond_the_limits_of_the_toml_reader_is_an_error_that_names_it(
    tmp_path: Path, value: str
) -> None:
    with pytest.raises(SettingsError, match=r"mnemogate\.toml: not a TOML file"):
        load(tmp_path, f"unix_uids = {value}")


@pytest.mark.parametrize("line", ["quota_bytes = = 7", f"agent_key = {SECRET}"])
def test_what_is_no_toml_is_said_with_its_line_and_column_and_without_its_value(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(SettingsError, match=r"not TOML: .* \(at line 2, column 1[35]\)") as caught:
        load(tmp_path, f"allowed_hosts = []\n{line}")
    assert SECRET not in str(caught.value)


def test_secret_does_not_belong_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MNEMOGATE_AGENT_KEY"):
        load(tmp_path, f'agent_key = "{SECRET}"')


def test_state_below_the_working_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="working directory"):
        load(tmp_path, state=str(tmp_path / "work/state"))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "work")
    with pytest.raises(SettingsError, match="working directory"):
        load(tmp_path, state=str(link / "state"))
    assert load(tmp_path, state=str(tmp_path / "state")).state == tmp_path / "state"


def test_default_state_is_fine_when_started_from_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    assert load(tmp_path).state.name == "mnemogate"


def test_user_without_an_entry_and_without_a_home_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.delenv("HOME")
    settings = load_settings({"state": "/var/lib/x/state"}, environment={})
    assert settings.state == Path("/var/lib/x/state")


def test_state_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    assert load(tmp_path, state=str(state)).state == state
    for mode in (0o750, 0o701, 0o777):
        state.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 700"):
            load(tmp_path, state=str(state))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SettingsError, match="directory"):
        load(tmp_path, state=str(file))


def test_checkpoint_inside_the_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="checkpoint"):
        load(tmp_path, state=str(tmp_path / "s"), checkpoint=str(tmp_path / "s/c.txt"))


def test_principals_are_bound_by_exactly_one_thing(tmp_path: Path) -> None:
    table = '[[principals]]\nid = "ada"\ntenant = "home"\nchannel = "user"\nclaims = "trusted"\n'
    settings = load(tmp_path, table + "uid = 1000")
    (binding,) = settings.principals
    assert binding.principal.channel is Channel.USER
    assert binding.principal.claims is Claims.TRUSTED
    assert settings.unix_uids == (1000,)
    for rest in ("", 'uid = 1\nmtls = "CN:ada"', 'mtls = "CN:ada"', 'uid = "1"', "uid = -1"):
        with pytest.raises(SettingsError, match="principals"):
            load(tmp_path, table + rest)
    with pytest.raises(SettingsError, match="same mtls or uid"):
        load(tmp_path, (table + "uid = 1000\n") * 2)


def test_tls_files_come_in_pairs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="tls_cert"):
        load(tmp_path, tls_cert="cert.pem")
    with pytest.raises(SettingsError, match="tls_cert"):
        load(tmp_path, tls_client_ca="ca.pem")
    for name in ("cert.pem", "key.pem"):
        Path(name).write_text("pem", "utf-8")
    assert load(tmp_path, tls_cert="cert.pem", tls_key="key.pem").tls_cert is not None


def test_config_file_is_never_taken_from_the_working_directory(tmp_path: Path) -> None:
    (Path.cwd() / "mnemogate.toml").write_text('listen = "127.0.0.1:1"')
    settings = load_settings({}, environment={"HOME": str(tmp_path / "home")})
    assert settings.listen.port == 7077
    usual = tmp_path / "home/.config/mnemogate"
    usual.mkdir(parents=True)
    (usual / "mnemogate.toml").write_text('listen = "127.0.0.1:2"')
    assert load_settings({}, environment={"HOME": str(tmp_path / "home")}).listen.port == 2
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings({}, environment={"MNEMOGATE_CONFIG": str(tmp_path / "absent.toml")})


def test_collector_may_come_from_the_standard_variable(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}
    assert load(tmp_path, env=env).telemetry.endpoint == "http://a:4318"
    assert load(tmp_path, env=env).telemetry.traces_url == "http://a:4318/v1/traces"
    whole = env | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:4318/in"}
    assert load(tmp_path, env=whole).telemetry.traces_url == "http://t:4318/in"
    assert load(tmp_path, env=whole | {"OTEL_SDK_DISABLED": "True"}).telemetry.traces_url is None
    env["MNEMOGATE_OTEL_ENDPOINT"] = "http://b:4318"
    assert load(tmp_path, env=env).telemetry.endpoint == "http://b:4318"


@pytest.mark.parametrize("signal", ["", "TRACES_"])
def test_a_protocol_that_is_not_supported_is_named_where_traces_are_on(
    tmp_path: Path, signal: str
) -> None:
    env = {f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL": "grpc"}
    assert load(tmp_path, env=env).telemetry.endpoint is None
    env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://a:4317"
    with pytest.raises(SettingsError, match=f"{signal}PROTOCOL: grpc is not supported"):
        load(tmp_path, env=env)
    env[f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL"] = "http/protobuf"
    assert load(tmp_path, env=env).telemetry.endpoint == "http://a:4317"


def test_headers_for_the_collector_come_from_the_standard_variable(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20YWRh, x-team = gate ,"}
    assert load(tmp_path, env=env).telemetry.headers == ()
    env["MNEMOGATE_OTEL_ENDPOINT"] = "http://a:4318"
    wanted = (("authorization", "Basic YWRh"), ("x-team", "gate"))
    assert load(tmp_path, env=env).telemetry.headers == wanted
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_HEADERS: must be name=value"):
        load(tmp_path, env={**env, "OTEL_EXPORTER_OTLP_HEADERS": "authorization"})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("mcp_answer_seconds = 5", "mcp_answer_seconds: no such setting; a write"),
        (
            "[after]\nretry_days = 7",
            "after: retry_days: no such setting; `mnemogate memory",
        ),
        ("[after]\noutbox_max = 7", "after: outbox_max: no such setting; /readyz"),
    ],
)
def test_a_removed_setting_names_its_successor(tmp_path: Path, table: str, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        load(tmp_path, table)


def test_packaged_ruleset_is_the_default(tmp_path: Path) -> None:
    assert parse_ruleset(load(tmp_path).ruleset_text()).matrix
    own = tmp_path / "own.toml"
    own.write_text("# mine")
    assert load(tmp_path, ruleset=str(own)).ruleset_text() == "# mine"
    with pytest.raises(SettingsError, match="ruleset"):
        load(tmp_path, ruleset=str(tmp_path / "absent.toml")).ruleset_text()


@pytest.mark.parametrize("table", settings_page.ROWS)
def test_every_key_has_a_meaning_and_its_default_is_a_value_that_it_allows(table: str) -> None:
    for field in settings_page.ROWS[table].values():
        assert meaning_of(field).endswith(".")
        if not isinstance(field.default, type(msgspec.NODEFAULT) | msgspec.Struct | str | tuple):
            assert value_of(field.default, field.type) == field.default


@pytest.mark.parametrize(
    "table",
    [
        McpServer,
        ModelUpstream,
        BackendServer,
        JudgeTable,
        WitnessTable,
        Receiver,
        AfterTable,
        SentryTable,
        ReplaySettings,
    ],
)
def test_no_table_has_a_key_that_the_page_does_not_tell(table: type[msgspec.Struct]) -> None:
    assert sorted(keys_of(table), key=repr) == sorted(msgspec.structs.fields(table), key=repr)


def test_only_settings_are_keys_of_the_file(tmp_path: Path) -> None:
    assert len({variable_of(field.name) for field in SETTINGS}) == len(SETTINGS)
    for name in {*Settings.__struct_fields__} - {field.name for field in SETTINGS} - {*TABLES}:
        with pytest.raises(SettingsError, match=f"{name}: no such setting"):
            load(tmp_path, f"{name} = 1")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('allowed_hosts = "gate.example"', "allowed_hosts: must be a list"),
        ('allowed_hosts = ["https://gate.example"]', "allowed_hosts: must be a list"),
        ('allowed_origins = ["gate.example"]', "allowed_origins: must be a list"),
        ("unix_uids = 1000", "unix_uids: must be a list"),
        ('unix_uids = ["1000"]', "unix_uids: must be a list"),
        ("checkpoint = 1", "checkpoint: must be a path"),
        ('quota_bytes = "16777216"', "quota_bytes: must be a whole number"),
        ('[after]\ncheckpoint = "/x"', "after: checkpoint: no such setting; it belongs above"),
        ('[[mcp]]\nname = "x"\nstate = "/x"', "mcp, table 1: state: no such setting; it belongs"),
        ('[[model]]\nname = "x"\ntotal_seconds = 9', "total_seconds: no such setting; a whole"),
    ],
)
def test_what_is_written_as_another_type_or_in_another_table_is_refused(
    tmp_path: Path, toml: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        load(tmp_path, toml)
    # Control: in its place, as its type.
    load(tmp_path, 'allowed_hosts = ["gate.example", "[::2]"]\nunix_uids = [1000]')
    load(tmp_path, 'allowed_origins = ["https://gate.example:8443", "null"]')


def test_agent_and_operator_cannot_have_the_same_key(tmp_path: Path) -> None:
    key = "one-key-for-both-of-them-01234"
    with pytest.raises(SettingsError, match="two different keys"):
        load(tmp_path, env={"MNEMOGATE_AGENT_KEY": key, "MNEMOGATE_OPERATOR_KEY": key})


def test_two_states_in_one_directory_keep_two_checkpoints(tmp_path: Path) -> None:
    kept = {load(tmp_path, state=str(tmp_path / name)).checkpoint for name in ("a", "b")}
    assert kept == {tmp_path / "mnemogate-checkpoint" / f"{name}.txt" for name in ("a", "b")}


def test_what_was_pasted_around_a_key_is_no_part_of_it(tmp_path: Path) -> None:
    key = "k" * 32
    environment = {"HOME": str(tmp_path), "MNEMOGATE_OPERATOR_KEY": f" {key}\n"}
    read = load_settings({}, environment=environment).operator_key
    assert read is not None
    assert read.reveal() == key
    # Quotation marks may belong to a key that a gate was given: only who sends it takes them off.
    assert [unquoted(one) for one in (f'"{key}"', f"'{key}'", f'"{key}', key, '"')] == [
        *(key, key, f'"{key}', key, '"'),
    ]
    # Control: blanks inside of it are still no key.
    with pytest.raises(SettingsError):
        load_settings({}, environment=environment | {"MNEMOGATE_OPERATOR_KEY": f"{key} {key}"})


def test_links_begin_with_the_address_by_which_people_come(tmp_path: Path) -> None:
    assert load(tmp_path).page_url is None
    assert load(tmp_path, 'page_url = "https://gate.example/held/"').page_url == (
        "https://gate.example/held"
    )
    given = load(tmp_path, env={"MNEMOGATE_PAGE_URL": "http://127.0.0.1:7078"})
    assert given.page_url == "http://127.0.0.1:7078"
    for bad in ("gate.example", "https://u:p@gate.example/", "https://gate.example/?x=1"):
        with pytest.raises(SettingsError, match="page_url: must be"):
            load(tmp_path, page_url=bad)
    old = '[review.webhook]\nurl = "https://a/"\nsecret_file = "/x"\npage_url = "https://b/"'
    with pytest.raises(SettingsError, match="page_url: no such setting; it belongs above the"):
        load(tmp_path, old)


@pytest.mark.parametrize(
    "env",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_EXPORTER_OTLP_HEADERS": "nothing"},
    ],
)
def test_who_may_go_without_traces_is_told_why_there_are_none(
    tmp_path: Path, env: dict[str, str]
) -> None:
    told: list[str] = []
    found = load_settings({}, environment={"HOME": str(tmp_path), **env}, untraced=told.append)
    assert found.telemetry.endpoint is None
    assert len(told) == 1
    assert "OTEL_EXPORTER_OTLP" in told[0]
    # Control: whoever may not is stopped, and what is not about traces stops both.
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP"):
        load(tmp_path, env=env)
    with pytest.raises(SettingsError, match="listen"):
        load_settings({"listen": "x"}, environment={"HOME": "/"}, untraced=told.append)


def test_a_gate_that_a_wrapper_starts_gets_what_it_reads_of_the_hosts_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {
        "HOME": str(tmp_path),
        "PATH": "/bin",
        "XDG_STATE_HOME": str(tmp_path / "states"),
        "MNEMOGATE_CONFIG": "mnemogate.toml",
        "SSL_CERT_FILE": "/ca.pem",
        "NOTES_TOKEN": "taken by a table",
    }
    hosts = {"OPENAI_API_KEY": SECRET, "SENTRY_DSN": SECRET, "NODE_OPTIONS": "--x", "EDITOR": "vi"}
    otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**ours, **hosts, **otel}.items():
        monkeypatch.setenv(name, value)
    table = '[[mcp]]\nname = "n"\ncommand = ["x"]\nenv = { A = "${NOTES_TOKEN}", B = "${x" }'
    Path("mnemogate.toml").write_text(table, "utf-8")
    given = gate_environment(load_settings(), None)
    file = str(Path("mnemogate.toml").absolute())
    assert given == {**ours, **otel, "MNEMOGATE_CONFIG": file}
    # Without traces none of theirs either: the host's may be for another protocol.
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    other = gate_environment(load_settings(), Path("other.toml"))
    assert other == {**ours, "MNEMOGATE_CONFIG": str(Path("other.toml").absolute())}
