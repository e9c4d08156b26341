"""Servers that are reached through a proxy alone, or whose authority is a company's own.

The hosts have no address in any DNS, so that only the proxy leads there, and their certificates are
signed by an authority that this machine's system does not know.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from msgspec.structs import replace

from proxy.seams.faults import UpstreamError
from proxy.settings.load import load_settings
from proxy.settings.model import ModelUpstream
from proxy.settings.table import SettingsError
from proxy.transport.upstream import Upstream
from telemetry.collector import Collector, Delivery
from telemetry.settings import TelemetrySettings
from tests.integration.mcp_bench import until
from tests.integration.running import AGENT_KEY, running
from tests.unit.proxy.tabled import tables_of

HOSTS = ("model.invalid", "memory.invalid", "tools.invalid", "collector.invalid")
CREDENTIAL = "Basic cHJveHktdXNlcjpwcm94eS1wYXNzd29yZA=="
BIND = ("127.0.0.1", 0)


class Network:
    """An egress proxy, and a TLS server that it takes every CONNECT to."""

    def __init__(self, base: Path) -> None:
        self.authority = trustme.CA()
        self.ca_file = base / "company.pem"
        self.authority.cert_pem.write_to_path(str(self.ca_file))
        self.headers_file = base / "proxy-headers"
        self.headers_file.write_text(f"Proxy-Authorization: {CREDENTIAL}\n")
        self.headers_file.chmod(0o600)
        self.proxy = ""
        self.direct = ""  # the server's own URL, by which it is reached without the proxy
        self.asked: list[bytes] = []
        self.served: list[tuple[str, str]] = []
        self.open = True

    async def answer(self, request: web.Request) -> web.Response:
        self.served.append((request.method, request.host))
        assert "Proxy-Authorization" not in request.headers
        answer = web.json_response({"data": []})
        answer.force_close()  # so that each request needs the way anew
        return answer

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            # A connection by which the sidecar only learns that the proxy is there.
            writer.close()
            return
        self.asked.append(head)
        if not self.open or CREDENTIAL.encode() not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        port = int(self.direct.rpartition(":")[2])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(copy(reader, back))
            group.create_task(copy(there, writer))

    def keys(self) -> str:
        return (
            f'proxy = "{self.proxy}"\nproxy_headers_file = "{self.headers_file}"\n'
            f'ca_file = "{self.ca_file}"\n'
        )

    def targets(self) -> set[str]:
        return {head.split(b" ")[1].decode() for head in self.asked}


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def network(tmp_path: Path) -> AsyncGenerator[Network]:
    async with opened(tmp_path) as one:
        yield one


@asynccontextmanager
async def opened(base: Path) -> AsyncGenerator[Network]:
    one = Network(base)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", one.answer)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    one.authority.issue_cert(*HOSTS, "localhost").configure_cert(tls)  # pyright: ignore[reportUnknownMemberType]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, *BIND, ssl_context=tls)
    await site.start()
    one.direct = f"https://localhost:{runner.addresses[0][1]}"
    server = await asyncio.start_server(one.relay, *BIND)
    one.proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        await runner.cleanup()


def table(url: str, **keys: object) -> ModelUpstream:
    (one,) = tables_of("model", [{"name": "claude", "api": "anthropic", "url": url, **keys}])
    assert isinstance(one, ModelUpstream)
    return one


async def asked(one: ModelUpstream) -> int:
    async with Upstream(one.url, way=one) as upstream, upstream.send("GET", {}) as reply:
        await upstream.whole(reply)
        return reply.status


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str, str]]:
    found = [one for one in caplog.records if one.name == "mnemogate.upstream"]
    fields = [getattr(one, "fields", {}) for one in found]
    return [
        (one.message, its["table"], its["url"], its.get("why", ""))
        for one, its in zip(found, fields, strict=True)
    ]


async def test_an_authority_of_a_companys_own_is_trusted_by_the_table_that_names_it_alone(
    network: Network,
) -> None:
    assert await asked(table(network.direct, ca_file=str(network.ca_file))) == 200
    # Control: without the file, the cause is named, and the server was sent nothing.
    with pytest.raises(UpstreamError) as failed:
        await asked(table(network.direct))
    assert failed.value.detail == "[[model]] claude cannot be reached (TLS)"
    assert "not trusted here: unable to get local issuer certificate" in failed.value.why
    assert not failed.value.sent
    # Instead of the system's: another authority's file does not trust it either.
    other = network.ca_file.with_name("other.pem")
    trustme.CA().cert_pem.write_to_path(str(other))
    with pytest.raises(UpstreamError, match="TLS"):
        await asked(table(network.direct, ca_file=str(other)))
    assert len(network.served) == 1
    assert network.asked == [], "control: without `proxy` the proxy sees nothing"


async def test_a_host_that_only_the_proxy_knows_is_reached_through_it(network: Network) -> None:
    url = f"https://{HOSTS[0]}"
    keys = {"ca_file": str(network.ca_file), "proxy": network.proxy}
    way = {**keys, "proxy_headers_file": str(network.headers_file)}
    assert await asked(table(url, **way)) == 200
    assert network.targets() == {f"{HOSTS[0]}:443"}
    assert network.served == [("GET", HOSTS[0])]
    # Control: by no way of its own.
    with pytest.raises(UpstreamError, match=r"\(DNS\)"):
        await asked(table(url, ca_file=str(network.ca_file)))
    with pytest.raises(UpstreamError, match=r"\(proxy\)") as failed:
        await asked(table(url, **keys))
    assert failed.value.why == "the proxy answered 407"
    with pytest.raises(UpstreamError, match=r"\(proxy\)"):
        await asked(table(url, **{**way, "proxy": "http://127.0.0.1:1"}))
    with pytest.raises(UpstreamError, match=r"\(TLS\)"):
        await asked(table(url, **{**way, "ca_file": None}))
    assert len(network.served) == 1


async def test_every_kind_of_table_has_its_own_way(network: Network, tmp_path: Path) -> None:
    model, memory, tools, _ = HOSTS
    tables = (
        f'[[model]]\nname = "claude"\napi = "anthropic"\nurl = "https://{model}"\n{network.keys()}'
        f'[[backend]]\nname = "store"\nadapter = "langgraph"\nurl = "https://{memory}"\n'
        f'{network.keys()}[[mcp]]\nname = "tools"\nurl = "https://{tools}/mcp"\n{network.keys()}'
    )
    async with running(tmp_path, tables=tables) as live:
        status, _ = await live.call("GET", "/claude/v1/models", AGENT_KEY)
        assert status == 200
        await live.call("GET", "/store/items?namespace=notes&key=k", AGENT_KEY)
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
        headers = {
            "Authorization": f"Bearer {AGENT_KEY}",
            "Accept": "application/json, text/event-stream",
        }
        async with live.client.post(live.url + "/mcp/tools", json=hello, headers=headers) as answer:
            await answer.read()
        await until(lambda: len({host for _, host in network.served}) == 3)
    assert network.targets() == {f"{one}:443" for one in (model, memory, tools)}


async def test_spans_take_their_own_way(network: Network, tmp_path: Path) -> None:
    config = tmp_path / "spans.toml"
    config.write_text(
        f'otel_endpoint = "https://{HOSTS[3]}:4318"\n'
        + "".join(f"otel_{line}\n" for line in network.keys().splitlines())
    )
    (tmp_path / "home").mkdir()
    environment = {"HOME": str(tmp_path / "home")}
    settings = load_settings({}, environment=environment, config=config).telemetry
    assert CREDENTIAL not in str(
        load_settings({}, environment=environment, config=config).otel_proxy
    )

    def posted(given: TelemetrySettings) -> Delivery:
        collector = Collector(
            given.traces_url or "",
            (),
            given.certificate_file,
            5.0,
            lambda: 0.0,
            proxy=given.proxy,
            proxy_headers=given.proxy_headers,
        )
        collector.hurry()
        try:
            return collector.post(b"spans")
        finally:
            collector.disconnect()

    assert await asyncio.to_thread(posted, settings) is Delivery.ARRIVED
    assert network.targets() == {f"{HOSTS[3]}:4318"}
    for less in (
        replace(settings, proxy=None),
        replace(settings, proxy_headers=()),
        replace(settings, certificate_file=None),
    ):
        assert await asyncio.to_thread(posted, less) is Delivery.LOST, less
    assert len(network.served) == 1


@pytest.mark.parametrize("api", ["anthropic", "openai"])
async def test_a_model_that_cannot_be_reached_is_logged_at_the_start_and_named_to_the_client(
    api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "mnemogate.upstream")
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:secret@proxy.invalid:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://someone:secret@proxy.invalid:3128")
    url = "http://127.0.0.1:1"
    text = f'[[model]]\nname = "{api}"\napi = "{api}"\nurl = "{url}"\n'
    turn = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello."}]}
    path = "/v1/messages" if api == "anthropic" else "/v1/chat/completions"
    async with running(tmp_path, tables=text) as live:
        await until(lambda: bool(logged(caplog)))
        ((event, which, where, why),) = logged(caplog)
        assert (event, which, where) == ("an upstream does not serve", f"[[model]] {api}", url)
        assert "refused" in why
        assert why.endswith("HTTP_PROXY is set, and not used: set `proxy` in the table)")
        for _ in range(2):
            status, answer = await live.call("POST", f"/{api}{path}", AGENT_KEY, turn)
            assert status == 503
            said = answer["error"]["message"]
            assert f"[[model]] {api} cannot be reached (refused)" in said
            assert "127.0.0.1" not in str(answer)
            assert "PROXY" not in str(answer)
    assert len(logged(caplog)) == 1, "once, and not for each request"
    assert "secret" not in caplog.text


async def test_a_server_that_serves_again_is_logged_once_too(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mnemogate.upstream")
    keys = {
        "ca_file": str(network.ca_file),
        "proxy": network.proxy,
        "proxy_headers_file": str(network.headers_file),
    }
    one = table(f"https://{HOSTS[0]}", **keys)
    async with Upstream(one.url, way=one) as upstream:

        async def ask() -> None:
            async with upstream.send("GET", {}) as reply:
                await upstream.whole(reply)

        await ask()
        assert logged(caplog) == []
        network.open = False
        for _ in range(2):
            with pytest.raises(UpstreamError):
                await ask()
        network.open = True
        for _ in range(2):
            await ask()
    assert [one for one, *_ in logged(caplog)] == [
        "an upstream does not serve",
        "an upstream serves again",
    ]
    assert CREDENTIAL not in caplog.text


KINDS = {
    "model": 'name = "a"\napi = "openai"\nurl = "https://a.invalid"\n',
    "backend": 'name = "a"\nadapter = "chroma"\nurl = "https://a.invalid"\n',
    "mcp": 'name = "a"\nurl = "https://a.invalid/mcp"\n',
}


@pytest.mark.parametrize("kind", [*KINDS, "otel"])
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('ca_file = "{tmp}/none.pem"', "ca_file: must be a PEM file of certificates ({tmp}/none"),
        ('ca_file = "{tmp}/no.pem"', "({tmp}/no.pem: no certificate is in it)"),
        ('proxy = "http://me:secret@p:1"', "proxy: must be http://host:port, without user"),
        ('proxy = "https://p:1"', "proxy: must be http://host:port"),
        ('proxy_headers_file = "{tmp}/closed"', "proxy_headers_file belongs to a proxy"),
        ('proxy = "http://p:1"\nproxy_headers_file = "{tmp}/open"', "proxy_headers_file: must be"),
    ],
)
def test_a_way_that_cannot_be_used_is_one_line_with_the_key(
    kind: str, keys: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "no.pem").write_text("no certificate\n")
    (tmp_path / "open").write_text("Proxy-Authorization: Basic secret\n")
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "closed").write_text("Proxy-Authorization: Basic secret\n")
    (tmp_path / "closed").chmod(0o600)
    lines = keys.format(tmp=tmp_path).splitlines()
    prefix = "otel_" if kind == "otel" else ""
    text = "".join(f"{prefix}{line}\n" for line in lines)
    if kind != "otel":
        text = f"[[{kind}]]\n{KINDS[kind]}{text}"
    config = tmp_path / "mnemogate.toml"
    config.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings({}, environment={"HOME": str(tmp_path)}, config=config)
    said = str(refused.value)
    assert says.format(tmp=tmp_path) in said
    assert said.startswith(f"{kind}, table 1: " if kind != "otel" else "otel_")
    assert "\n" not in said
    assert "secret" not in said


def test_a_command_has_no_way(tmp_path: Path) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text('[[mcp]]\nname = "a"\ncommand = ["server"]\nproxy = "http://p:1"\n')
    with pytest.raises(SettingsError, match="proxy belongs to a url"):
        load_settings({}, environment={"HOME": str(tmp_path)}, config=config)
