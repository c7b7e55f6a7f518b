"""Keeps a copy of the orders, each change applied once."""
import hashlib
import hmac
import http.server
import json
import os
import sqlite3
import threading

SECRET = os.environ["WEBHOOK_SECRET"].encode()

one_at_a_time = threading.Lock()
copy = sqlite3.connect("copy.db", check_same_thread=False)
copy.execute("create table if not exists seen (feed text, id integer, primary key (feed, id))")
copy.execute("create table if not exists orders (id integer primary key, customer text, amount integer)")
copy.commit()


def apply(change):
    new = copy.execute("insert or ignore into seen values (?, ?)", (change["feed"], change["id"])).rowcount
    if not new:
        return
    if change["after"]:
        copy.execute("insert or replace into orders values (:id, :customer, :amount)", change["after"])
    else:
        copy.execute("delete from orders where id = :id", change["key"])


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signature = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        if hmac.compare_digest(signature, self.headers["Seriatim-Signature"] or ""):
            with one_at_a_time, copy:  # one transaction for the whole batch
                for change in json.loads(body):
                    apply(change)
            self.answer(204)
        else:
            self.answer(401)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
