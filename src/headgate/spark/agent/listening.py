"""Where the agent listens: this machine alone unless it is told otherwise. No pyspark.

`attach(spark, listen=...)` takes "127.0.0.1:7443" (a port of one's own on this machine) or

    address      "0.0.0.0:7443", "[::]:7443", "driver.example:7443"; port 0 is any free one
    token        what askers must say, 16 characters or more; made at random if left out,
                 which is possible on this machine only
    certificate  PEM file of the agent; with it everything on the wire is TLS
    key          PEM file of its private key, if it does not stand in the same file
    authority    PEM file of the authority that askers trust; without it they trust this one
                 certificate and no other
    name         the name in the certificate, if it is not the host of the address

Whoever has the token can ask for decisions and so decide what is dropped. Off the machine
without a certificate the token can be read on the wire; an alarm says so.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import UsageError

__all__ = ["HERE", "Listening", "read_listening"]

_KNOWN = ("address", "token", "certificate", "key", "authority", "name")
_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Listening:
    """A place to listen that has been checked."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""
    authority: str = ""
    name: str = ""

    @property
    def is_here(self) -> bool:
        """True when nobody else's machine can reach it."""
        return _is_loopback(self.host)

    @property
    def asked_host(self) -> str:
        """Where this machine's own processes ask: the host, or loopback if it is every one."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)

    def context(self) -> ssl.SSLContext | None:
        """For the server's side of TLS; None without a certificate. UsageError if it is no good."""
        if not self.certificate:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key or None, password=_no_password)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"listen: certificate {self.certificate!r} and key {self.key!r} cannot be used "
                f"({error}); they must be PEM files that belong together, without a password"
            ) from None
        return context

    def open(self) -> socket.socket:
        """A socket that listens. UsageError where that is not possible."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=64)
        except OSError as error:
            raise UsageError(f"listen: cannot listen at {self.host}:{self.port}: {error}") from None


HERE = Listening()


def read_listening(given: str | Mapping[str, Any] | None) -> Listening:
    """UsageError says what is wrong."""
    if given is None:
        return HERE
    options = {"address": given} if isinstance(given, str) else dict(given)
    unknown = [name for name in options if name not in _KNOWN]
    if unknown:
        raise UsageError(f"listen: no option {unknown[0]!r}; expected {', '.join(_KNOWN)}")
    host, port = _address(str(options.get("address", "")))
    texts = {name: str(options.get(name) or "") for name in _KNOWN[1:]}
    for name in ("certificate", "key", "authority"):
        if texts[name]:
            texts[name] = os.path.abspath(os.path.expanduser(texts[name]))
            if not os.path.isfile(texts[name]):
                raise UsageError(f"listen: {name}: no file {texts[name]!r}")
        if texts[name] and not texts["certificate"]:
            raise UsageError(f"listen: {name} is of use only with a certificate")
    listening = Listening(host, port, **texts)
    if not listening.token and not listening.is_here:
        raise UsageError(
            f"listen: {host} can be reached from other machines; give a token of at least "
            f"{_SHORTEST_TOKEN} characters, for example that of `openssl rand -hex 32`"
        )
    if listening.token and (len(listening.token) < _SHORTEST_TOKEN or not _plain(listening.token)):
        raise UsageError(
            f"listen: the token must have at least {_SHORTEST_TOKEN} characters, all ASCII"
        )
    listening.context()
    return listening


def _plain(token: str) -> bool:
    return token.isascii() and token.isprintable()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(
            f"listen: the address must be host:port, such as 0.0.0.0:7443, not {text!r}"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise UsageError(f"listen: the host {host!r} is not known here: {error}") from None
    return all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)


def _no_password() -> str:
    """Without it OpenSSL would ask on the terminal."""
    raise ValueError("the key has a password")
