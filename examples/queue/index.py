"""Keeps an index of works, event by event. Each event names the one before it of the same work."""
import json
import sqlite3
import sys

index = sqlite3.connect("index.db")
index.execute("create table if not exists work (object text primary key, title text, year integer, last integer)")

for line in sys.stdin:
    event = json.loads(line)
    work, what = event["key"]["object"], event["after"]
    with index:
        last = index.execute("select last from work where object = ?", (work,)).fetchone()
        if last and last[0] >= event["id"]:
            pass  # sent again after a crash: this one is in the index
        elif (last[0] if last else None) != event["prev"]:
            print(json.dumps({"error": f"the event before this one, {event['prev']}, is not here"}), flush=True)
            continue
        else:
            index.execute("insert or ignore into work (object) values (?)", (work,))
            index.execute(
                "update work set title = coalesce(?, title), year = coalesce(?, year), last = ? where object = ?",
                (what.get("title"), what.get("year"), event["id"], work),
            )
    print('{"ok":true}', flush=True)
