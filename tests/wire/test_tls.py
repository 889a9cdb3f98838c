"""The app over TLS, with a certificate made for the test."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support import read_reply, run
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving


def _certificate(folder: Path) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternatives, critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*form))
    return str(cert), str(secret)


def test_the_desk_answers_over_tls_and_names_itself_https(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path)

    async def main() -> None:
        listener = listen("127.0.0.1", 0)
        bind = Bind(listener, tls=(cert, key))
        async with open_desk(Settings(home=tmp_path / "home", toolsets=("desk",))) as desk:
            app, _ = build_app(desk, bind)
            async with serving(app, bind):
                port = listener.getsockname()[1]
                assert bind.base == f"https://127.0.0.1:{port}"
                context = ssl.create_default_context(cafile=cert)
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                writer.write(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                assert (await read_reply(reader)).json["status"] == "ok"
                writer.close()
                await writer.wait_closed()

    run(main())
