# The command that a chaos run's hosts run: notes what it sees in the journal that all processes of the run append to.
# A line is one write, so the file's order is the order in which things happened.
import json, os, random, select, sys, time

journal = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
machine, me = os.environ["CHAOS_MACHINE"], os.getpid()


def note(*words):
    line = [str(time.time_ns() // 1000), machine, str(me), *map(str, words)]
    os.write(journal, (" ".join(line) + "\n").encode())


def lines():
    rest = b""
    while True:
        while b"\n" not in rest:
            if not select.select([0], [], [], 0)[0]:
                note("idle")
            read = os.read(0, 1 << 16)
            if not read:
                return
            rest += read
        line, rest = rest.split(b"\n", 1)
        yield json.loads(line)


note("command")
for change in lines():
    before, after = change["before"], change["after"]
    revision = after["revision"] if after else before["revision"] + 1
    key, token = change["key"]["id"], (after or before)["token"]
    what = (key, revision, token, change["id"], change["prev"] or 0)
    note("began", *what)
    time.sleep(random.choice([0, 0, 0, 0, 0, 0, 0.001, 0.002, 0.005, 0.01]))
    if os.path.exists(f"poison-{key}"):
        note("failed", *what)
        print('{"error":"it is poison"}', flush=True)
        continue
    note("handled", *what)
    print('{"ok":true}', flush=True)
