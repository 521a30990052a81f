"""Another user of the machine, with all that lets the owner in: a fresh link, the cookie, the token."""

import os
import subprocess
import sys

import pytest

from tests.gateway.conftest import Serve

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="only root on Linux can be another user for a moment"
)

PROGRAM = """
import encodings.idna, os, socket, sys
port, request, found = int(sys.argv[1]), sys.stdin.buffer.read(), b""
os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
    try:
        connection.sendall(request)
        while piece := connection.recv(65536):
            found += piece
    except ConnectionError:
        pass
sys.stdout.buffer.write(found)
"""


def asked(port: int, request: str, user: int) -> str:
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, str(port), str(user)]
    done = subprocess.run(argv, input=request.encode(), capture_output=True, timeout=30, check=True)
    return done.stdout.decode()


def test_another_user_is_refused_with_a_link_a_cookie_and_the_token(serve: Serve) -> None:
    served = serve()
    port = served.address.port
    cookie = "; ".join(f"{name}={value}" for name, value in served.browser().cookies.items())
    end = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    link = served.link()
    requests = {
        "link": f"GET {link}{end}\r\n",
        "cookie": f"GET /{end}Cookie: {cookie}\r\n\r\n",
        "token": f"POST /link{end}Authorization: Bearer {served.token}\r\nContent-Length: 2\r\n\r\n{{}}",
    }
    for name, request in requests.items():
        assert asked(port, request, 65534) == "", name
    # The link was not used up by it, and each of them lets the owner in.
    for name, request in requests.items():
        assert asked(port, request, 0).startswith("HTTP/1.1 200"), name
