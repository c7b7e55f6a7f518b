"""`make` makes the queue, `count` counts its messages, `read` takes them out and checks that each object's are there once and in order."""
import json
import sys

import boto3

sqs = boto3.client("sqs")
QUEUE = {"QueueName": "orders.fifo"}


def url():
    return sqs.get_queue_url(**QUEUE)["QueueUrl"]


def read():
    while messages := sqs.receive_message(QueueUrl=url(), MaxNumberOfMessages=10).get("Messages"):
        entries = [{"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(messages)]
        sqs.delete_message_batch(QueueUrl=url(), Entries=entries)
        yield from (json.loads(each["Body"]) for each in messages)


match sys.argv[1]:
    case "make":
        sqs.create_queue(**QUEUE, Attributes={"FifoQueue": "true"})
    case "count":
        told = sqs.get_queue_attributes(QueueUrl=url(), AttributeNames=["ApproximateNumberOfMessages"])
        print(told["Attributes"]["ApproximateNumberOfMessages"])
    case "read":
        ids = {}
        for change in read():
            ids.setdefault(change["key"]["id"], []).append(change["id"])
        total = sum(map(len, ids.values()))
        print(f"the queue had {total} messages of {len(ids)} objects")
        assert total == 300 and all(each == sorted(set(each)) for each in ids.values()), ids
