"""Writes a mail for each order. What goes to stderr is in Seriatim's log."""
import json
import pathlib
import sys

outbox = pathlib.Path("outbox")
outbox.mkdir(exist_ok=True)

for line in sys.stdin:
    change = json.loads(line)
    order = change["after"]
    if order and order["customer"] == "nobody":
        # It will never succeed: do not try again.
        answer = {"error": "nobody has no address", "retry": False}
    else:
        if order:
            text = f"Dear {order['customer']}, your order {order['id']} over {order['amount']} is on its way.\n"
            (outbox / f"{change['id']}.txt").write_text(text)
        answer = {"ok": True}
    print(json.dumps(answer), flush=True)
