"""Speaks to JetStream in NATS' own words: `make` makes the stream, `count` counts its messages, `last` prints the last one."""
import base64
import json
import os
import socket
import sys


def ask(what, body):
    host, port = os.environ["ORDERS_NATS_URL"].removeprefix("nats://").split(":")
    body = json.dumps(body).encode()
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b'CONNECT {"verbose":false}\r\nSUB answer 1\r\n')
        link.sendall(f"PUB $JS.API.{what} answer {len(body)}\r\n".encode() + body + b"\r\n")
        lines = link.makefile("rb")
        for line in lines:
            if line.startswith(b"MSG answer 1 "):
                return json.loads(lines.read(int(line.split()[-1])))
    raise SystemExit("NATS closed the connection")


match sys.argv[1]:
    case "make":
        made = ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.*"], "num_replicas": 1})
        assert "error" not in made, made
    case "count":
        print(ask("STREAM.INFO.ORDERS", {})["state"]["messages"])
    case "last":
        sequence = ask("STREAM.INFO.ORDERS", {})["state"]["last_seq"]
        print(base64.b64decode(ask("STREAM.MSG.GET.ORDERS", {"seq": sequence})["message"]["data"]).decode())
