"""`tracedesk serve`: one desk on one transport, until it is told to stop."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from tracedesk.cli.console import (
    Console,
    Failed,
    Misuse,
    describe,
    disk_sentence,
    pass_console,
    sentence,
    short_path,
    table,
)
from tracedesk.cli.frame import DeskCommand

if TYPE_CHECKING:
    from tracedesk.config import Settings
    from tracedesk.snippets import Target

Transport = Literal["stdio", "sse", "http", "grpc"]
Tls = tuple[str, str]
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
GRPC_PORT: Final = 50053
WILDCARDS: Final = ("0.0.0.0", "::")
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=DeskCommand)
@click.option("--stdio", "transports", flag_value="stdio", multiple=True, help="Serve one client over pipes.")
@click.option("--http", "transports", flag_value="http", multiple=True, help="Serve over HTTP (the default).")
@click.option("--sse", "transports", flag_value="sse", multiple=True, help="The same as --http.")
@click.option(
    "--grpc", "transports", flag_value="grpc", multiple=True, help="Serve over gRPC, on this machine only."
)
@click.option("--host", metavar="ADDRESS", help="The address to listen on [default: 127.0.0.1].")
@click.option(
    "--port", type=int, metavar="N", help="The port; 0 takes any free one [default: 3000], with --grpc 50053."
)
@click.option("--toolsets", metavar="A,B", help="The toolsets to serve [default: every one that is built].")
@click.option("--read-only", is_flag=True, default=None, help="Serve only tools that change nothing.")
@click.option(
    "--clock", metavar="WHEN", help="The market's clock: replay, system, or where a new replay begins."
)
@click.option(
    "--root",
    "roots",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A folder whose code may be indexed, fuzzed and shown; repeatable [default: where the desk is "
    "started, if that lies in a project].",
)
@click.option("--max-bytes", type=int, metavar="N", help="The hard cap of one answer [default: 1048576].")
@click.option(
    "--max-tokens", type=int, metavar="N", help="The budget of an answer with a next page [default: 8000]."
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="A certificate chain, in PEM; needs --tls-key.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The certificate's private key, in PEM.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front ends TLS; every request needs a token.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Answer to this host name, or NAME:PORT; repeatable.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="Answer pages of this origin too, such as http://localhost:6274; repeatable.",
)
@pass_console
def serve(
    console: Console,
    transports: tuple[Transport, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    clock: str | None,
    roots: tuple[Path, ...],
    **flags: Any,
) -> None:
    """Serve the desk to MCP clients over HTTP or stdio, or to gateways over gRPC.

    Over HTTP it prints its URL, its token and what to paste into each client. Programs of your own user
    read without the token; other users, and tools that write or trade, need it. SIGTERM and Ctrl-C stop it
    cleanly.

    SIGUSR1 halts all trading: open orders are cancelled, and none is sent until `tracedesk exchange rearm`.
    """
    chosen = _transport(transports)
    tls = _tls(tls_cert, tls_key)
    settings = console.settings(tables=_tables(clock, roots), **flags)
    if chosen == "stdio":
        if flags["port"] is not None:
            raise Misuse("--stdio serves over pipes and has no port; leave out --port.")
        _serve_stdio(settings)
    elif chosen == "grpc":
        _refuse_over_grpc(settings.host, tls is not None, behind_proxy, hosts + origins)
        _serve_grpc(console, _on_grpc_port(settings, console.explained(**flags)["port"].source))
    else:
        _check_bind(settings.host, tls, behind_proxy)
        _check_names(hosts, origins)
        _serve_http(console, settings, tls, behind_proxy, hosts, origins)


def _tables(clock: str | None, roots: tuple[Path, ...]) -> dict[str, dict[str, Any]] | None:
    """What the flags say in the toolsets' own tables."""
    from tracedesk.config import ROOTED

    tables: dict[str, dict[str, Any]] = {}
    if clock is not None:
        tables["trading"] = {"clock": clock}
    if roots:
        tables |= {name: {"roots": [str(root.absolute()) for root in roots]} for name in ROOTED}
    return tables or None


def _transport(transports: tuple[Transport, ...]) -> Transport:
    if len(set(transports)) > 1:
        named = " and ".join(f"--{name}" for name in dict.fromkeys(transports))
        raise Misuse(f"{named} exclude each other; choose one.")
    return transports[0] if transports else "http"


def _tls(cert: Path | None, key: Path | None) -> Tls | None:
    if cert is None or key is None:
        if cert is not None or key is not None:
            raise Misuse("--tls-cert and --tls-key belong together; give both.")
        return None
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ValueError) as fault:
        raise Misuse(f"{cert} and {key} are not a certificate and its key: {fault}") from None
    return str(cert), str(key)


def _check_bind(host: str, tls: Tls | None, behind_proxy: bool) -> None:
    if host not in LOOPBACK and tls is None and not behind_proxy:
        message = f"--host {host} is open to other machines, and tokens would travel in the clear."
        remedy = "Add --tls-cert and --tls-key, or --behind-proxy where a proxy ends TLS."
        raise Misuse(f"{message} {remedy}")


def _check_names(hosts: tuple[str, ...], origins: tuple[str, ...]) -> None:
    from tracedesk.wire.origins import authority, named_origin

    for name in hosts:
        if authority(name) is None:
            raise Misuse(
                f"--allow-host {name!r} is not a host name. Give NAME or NAME:PORT, without a scheme."
            )
    for name in origins:
        if named_origin(name) is None:
            raise Misuse(f"--origin {name!r} is not an origin. Give scheme, name and port alone.")


def _complete(settings: Settings) -> Settings:
    """The settings with every built toolset where none is named."""
    from tracedesk.toolsets import built

    return replace(settings, toolsets=settings.toolsets or built())


def _serve_stdio(settings: Settings) -> None:
    from tracedesk import serve as server
    from tracedesk.config import BadSetting
    from tracedesk.toolsets import UnknownToolset

    if not (sys.__stdin__ and sys.__stdout__):  # None when the descriptor was closed before the start
        raise Misuse("--stdio serves a client over stdin and stdout, and one of them is closed.")
    try:
        server.stdio(_complete(settings))
    except (UnknownToolset, BadSetting) as fault:
        raise Misuse(sentence(fault)) from None


def _serve_http(
    console: Console,
    settings: Settings,
    tls: Tls | None,
    behind_proxy: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
) -> None:
    from tracedesk import serve as server
    from tracedesk.config import BadSetting
    from tracedesk.toolsets import UnknownToolset

    settings = _complete(settings)
    ready = _greeter(console, settings, hosts)
    _remark(console, settings.host, behind_proxy, hosts)
    try:
        server.http(
            settings,
            ready,
            tls=tls,
            behind_proxy=behind_proxy,
            hosts=hosts,
            origins=origins,
            exercised=True,
        )
    except (UnknownToolset, BadSetting) as fault:
        raise Misuse(sentence(fault)) from None
    except OSError as fault:
        raise Failed(_no_port(fault, settings)) from None


def _refuse_over_grpc(host: str, tls: bool, behind_proxy: bool, hosts: tuple[str, ...]) -> None:
    if host not in LOOPBACK:
        raise Misuse(f"--grpc serves this machine only; leave out --host {host}, or serve over HTTP.")
    if tls or behind_proxy or hosts:
        raise Misuse(
            "--tls-cert, --tls-key, --origin, --behind-proxy and --allow-host are for HTTP, not for --grpc."
        )


def _on_grpc_port(settings: Settings, source: str) -> Settings:
    """The settings with gRPC's own default port, where nobody chose one."""
    return replace(settings, port=GRPC_PORT) if source == "default" else settings


def _serve_grpc(console: Console, settings: Settings) -> None:
    from tracedesk import serve as server
    from tracedesk.config import BadSetting
    from tracedesk.toolsets import UnknownToolset

    settings = _complete(settings)
    names = ["desk", *(name for name in settings.toolsets if name != "desk")]

    def ready(address: str, token: str) -> None:
        facts = {"grpc": address, "token": token, "home": str(settings.home), "toolsets": names}
        console.answer(facts, _grpc_greeting(facts, settings.home))
        sys.stdout.flush()

    try:
        server.grpc(settings, ready, exercised=True)
    except (UnknownToolset, BadSetting) as fault:
        raise Misuse(sentence(fault)) from None
    except ImportError as fault:
        raise Failed(f"gRPC is not installed here ({fault}). Install tracedesk[exchange].") from None
    except OSError as fault:
        raise Failed(_no_port(fault, settings)) from None


def _grpc_greeting(facts: dict[str, Any], home: Path) -> str:
    import tracedesk
    from tracedesk import logs

    rows = [
        ("Service", "tracedesk.provider.v1.Provider, with health and reflection"),
        ("Token", f"{facts['token']}  (metadata: authorization: Bearer TOKEN, to write or trade)"),
        ("Home", short_path(home)),
        ("Log", short_path(logs.path(home))),
    ]
    served = ", ".join(facts["toolsets"])
    head = f"Tracedesk {tracedesk.__version__} serves {served} over gRPC at {facts['grpc']}"
    return "\n".join([head, "", _indent(table(rows)), "", "Stop with Ctrl-C."])


def _remark(console: Console, host: str, behind_proxy: bool, hosts: tuple[str, ...]) -> None:
    if (host in WILDCARDS or behind_proxy) and not hosts:
        console.note("Add --allow-host NAME with the name clients use; others are answered 421.")


def _no_port(fault: OSError, settings: Settings) -> str:
    where = f"{settings.host} port {settings.port}"
    if fault.errno == errno.EADDRINUSE:
        return f"{where} is in use. Stop what holds it, or choose another with --port."
    if fault.errno in (errno.EACCES, errno.EPERM) and fault.filename is None:
        return f"{where} may not be opened by this user. Choose a port above 1023 with --port."
    if isinstance(fault, socket.gaierror) or fault.errno == errno.EADDRNOTAVAIL:
        return f"{settings.host} is not an address of this machine. Choose another with --host."
    return disk_sentence(fault, settings.home) or describe(fault)


# --- the first minute --------------------------------------------------------------------------


def _greeter(console: Console, settings: Settings, hosts: tuple[str, ...]) -> Callable[[str, str], None]:
    from tracedesk.clients import starting

    names = ("desk", *(name for name in settings.toolsets if name != "desk"))
    given = console.explained()["home"].source != "default"
    own = starting(names, settings.home if given else None)

    def ready(base: str, token: str) -> None:
        url = _reachable(base, settings.host, hosts)
        facts = {"url": url, "token": token, "home": str(settings.home), "toolsets": list(names)}
        target = replace(own, url=f"{url}/mcp", token=token)
        console.answer(facts, _greeting(facts, target, settings.home))
        sys.stdout.flush()

    return ready


def _reachable(base: str, host: str, hosts: tuple[str, ...]) -> str:
    """The URL by a name that clients can use: nobody can connect to a wildcard address."""
    if host not in WILDCARDS or not hosts:
        return base
    named = hosts[0] if ":" in hosts[0].rpartition("]")[2] else f"{hosts[0]}:{base.rpartition(':')[2]}"
    return f"{base.partition('://')[0]}://{named}"


def _greeting(facts: dict[str, Any], target: Target, home: Path) -> str:
    import tracedesk
    from tracedesk import logs
    from tracedesk.snippets import SNIPPETS

    served = ", ".join(facts["toolsets"])
    rows = [
        ("MCP", target.url),
        ("Page", f"{facts['url']}/"),
        ("Token", f"{facts['token']}  (for tools that write or trade, and for other users)"),
        ("Home", short_path(home)),
        ("Log", short_path(logs.path(home))),
    ]
    parts = [f"Tracedesk {tracedesk.__version__} serves {served} at {facts['url']}", "", _indent(table(rows))]
    parts += ["", "Connect a client:", ""]
    for snippet in SNIPPETS.values():
        parts += [f"  {snippet.title}, {snippet.file}", f"    {snippet.short(target)}"]
    command = short_path(Path(sys.argv[0]).absolute())
    parts += ["", f"Or let it be written: {command} install --client NAME. Stop with Ctrl-C."]
    return "\n".join(parts)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
