"""A receiver that redirects, hangs, floods, or whose name leads where nothing may go."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from proxy.reporting.webhook import LIMITS, Webhook, signature
from proxy.seams.faults import UpstreamError
from proxy.settings.review_webhook import Receiver as ReceiverTable
from proxy.transport.addresses import refused
from proxy.transport.upstream import UpstreamLimits

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"t" * 32).decode()
BODY = b'{"test": 2432232314}'


class Receiver:
    """A server on one loopback address, and every request that it got."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.port = 0

    async def taken(self, request: web.Request) -> web.StreamResponse:
        self.got.append(({k.lower(): v for k, v in request.headers.items()}, await request.read()))
        return web.Response(status=204)


@asynccontextmanager
async def receiving(
    answer: Callable[[Receiver, web.Request], Awaitable[web.StreamResponse]] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Receiver]:
    receiver = Receiver()

    async def serve(request: web.Request) -> web.StreamResponse:
        taken = await receiver.taken(request)
        return taken if answer is None else await answer(receiver, request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


def told(
    url: str,
    *,
    allow: tuple[str, ...] = ("127.0.0.1/32",),
    limits: UpstreamLimits = LIMITS,
    names: Callable[[], str] | None = None,
    tls: ssl.SSLContext | bool = True,
    secrets: tuple[str, ...] = (SECRET,),
) -> Webhook:
    """`names` is what every name means, asked anew each time."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(position) for position in range(len(secrets))]
        for file, secret in zip(files, secrets, strict=True):
            file.touch(0o600)
            file.write_text(secret, "utf-8")
        first, second = [*map(str, files), None][:2]
        assert first is not None
        table = ReceiverTable(url=url, secret_file=first, second_secret_file=second, allow=allow)

    async def look_up(_host: str, _port: int) -> tuple[str, ...]:
        if names is None:
            raise OSError("no such name")
        return tuple(names().split())

    return Webhook(
        table,
        lambda: 1_614_265_330_000,
        "application/json",
        limits=limits,
        look_up=look_up,
        tls=tls,
    )


def test_a_signature_is_the_one_of_the_standard() -> None:
    """Against what `standardwebhooks` 1.1.0 signs with the key of its own example."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_message_is_one_post_with_a_signature_for_each_secret() -> None:
    async with receiving() as receiver:
        sink = told(f"http://127.0.0.1:{receiver.port}/hook")
        await sink.deliver("msg_1", BODY)
        both = told(f"http://127.0.0.1:{receiver.port}/hook", secrets=(SECRET, OTHER))
        await both.deliver("msg_1", BODY)
    (headers, body), (again, _) = receiver.got
    assert body == BODY
    assert headers["webhook-id"] == again["webhook-id"] == "msg_1"
    assert headers["webhook-timestamp"] == "1614265330"
    first, second = again["webhook-signature"].split(" ")
    assert headers["webhook-signature"] == first == signature(b"s" * 32, "msg_1", 1614265330, BODY)
    assert second == signature(b"t" * 32, "msg_1", 1614265330, BODY)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_the_metadata_address_is_a_failure_and_not_followed(
    status: int,
) -> None:
    async with receiving() as elsewhere:
        target = f"http://127.0.0.1:{elsewhere.port}/latest/meta-data/"

        async def lead(_receiver: Receiver, _request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": target})

        async with receiving(lead) as receiver:
            with pytest.raises(UpstreamError, match="redirect"):
                await told(f"http://127.0.0.1:{receiver.port}/").deliver("msg_1", BODY)
        assert len(receiver.got) == 1
        assert elsewhere.got == []


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
async def test_what_is_not_taken_is_a_failure(status: int) -> None:
    async def refuse(_receiver: Receiver, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="what it says is not passed on")

    async with receiving(refuse) as receiver:
        with pytest.raises(UpstreamError) as caught:
            await told(f"http://127.0.0.1:{receiver.port}/").deliver("msg_1", BODY)
    assert caught.value.detail == f"the receiver answered {status}"


async def test_an_answer_of_ten_megabytes_is_not_read() -> None:
    sent = 0

    async def flood(_receiver: Receiver, request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(160):
            await response.write(b"x" * 65_536)
            sent += 65_536
        return response

    async with receiving(flood) as receiver:
        await told(f"http://127.0.0.1:{receiver.port}/").deliver("msg_1", BODY)
        for _ in range(20):
            await asyncio.sleep(0)
    assert sent < 10 * 1024 * 1024, "the connection ended long before"


@pytest.mark.parametrize("slow", ["head", "connection"])
async def test_an_answer_that_does_not_come_is_a_failure(slow: str) -> None:
    never = asyncio.Event()

    async def hang(_receiver: Receiver, request: web.Request) -> web.StreamResponse:
        if slow == "connection" and request.transport is not None:
            request.transport.close()
        else:
            await never.wait()
        return web.Response()

    limits = UpstreamLimits(head_seconds=0.2)
    async with receiving(hang) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        with pytest.raises(UpstreamError, match=r"in time|broke"):
            await told(url, limits=limits).deliver("msg_1", BODY)
        never.set()


REFUSED = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200"),
    *("0.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.0.8", "198.18.0.1", "168.63.129.16"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    *("::ffff:169.254.169.254", "::ffff:8.8.8.8", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
    *("2002:a9fe:a9fe::1", "2001::1", "3fff::1", "::127.0.0.1"),
)


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_leads_to_what_is_not_public_is_refused(address: str) -> None:
    sink = told("https://receiver.example/", allow=(), names=lambda: f"8.8.8.8 {address}")
    with pytest.raises(UpstreamError, match="is not an address that anything is sent to"):
        await sink.deliver("msg_1", BODY)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450::1"])
def test_what_is_public_is_not_refused(address: str) -> None:
    assert not refused(address, ())
    assert refused(address, (), only_allowed=True)
    assert not refused(address, (ip_network(address),), only_allowed=True)


@pytest.mark.parametrize("host", ["127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
async def test_an_address_in_the_url_is_judged_as_well(host: str) -> None:
    with pytest.raises(UpstreamError, match="is not an address"):
        await told(f"https://{host}:9/").deliver("msg_1", BODY)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1"])
async def test_an_address_in_another_spelling_is_judged_as_what_it_means(host: str) -> None:
    sink = told(f"https://{host}:9/", allow=(), names=lambda: "127.0.0.1")
    with pytest.raises(UpstreamError, match="is not an address"):
        await sink.deliver("msg_1", BODY)


async def test_a_name_is_looked_up_once_and_connected_to_is_what_was_judged() -> None:
    """DNS rebinding: whoever looks a second time is led to the other server."""
    looked: list[str] = []

    def names() -> str:
        looked.append("127.0.0.2" if looked else "127.0.0.1")
        return looked[-1]

    async with (
        receiving() as receiver,
        receiving(host="127.0.0.2", port=receiver.port) as guarded,
    ):
        url = f"http://receiver.example:{receiver.port}/"
        sink = told(url, names=names)
        await sink.deliver("msg_1", BODY)
        assert (len(looked), len(receiver.got), len(guarded.got)) == (1, 1, 0)
        assert receiver.got[0][0]["host"] == f"receiver.example:{receiver.port}"
        # By now the name means the other one, and that is judged anew.
        with pytest.raises(UpstreamError, match=r"127\.0\.0\.2 is not an address"):
            await sink.deliver("msg_1", BODY)
        assert guarded.got == []
        wide = told(url, allow=("127.0.0.0/8",), names=names)
        await wide.deliver("msg_1", BODY)
        assert len(guarded.got) == 1, "control: there it would have gone"


async def test_over_tls_the_name_is_asked_for_and_held_against_the_certificate(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made = authority.issue_cert("receiver.example")
    pem = tmp_path / "server.pem"
    made.private_key_and_cert_chain_pem.write_to_path(str(pem))
    server.load_cert_chain(pem)
    asked: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    client = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with receiving(tls=server) as receiver:
        url = f"https://receiver.example:{receiver.port}/"
        await told(url, names=lambda: "127.0.0.1", tls=client).deliver("msg_1", BODY)
        assert asked == ["receiver.example"]
        other = url.replace("receiver", "elsewhere")
        for sink in (
            told(other, names=lambda: "127.0.0.1", tls=client),
            told(url, names=lambda: "127.0.0.1"),
        ):
            with pytest.raises(UpstreamError):
                await sink.deliver("msg_1", BODY)
    assert len(receiver.got) == 1


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        await told(f"http://127.0.0.1:{receiver.port}/").deliver("msg_1", BODY)
    assert (len(receiver.got), len(proxy.got)) == (1, 0)
