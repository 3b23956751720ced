"""Publishes an event with the client that was generated, waits for its dead letter, and replays it."""

import os
import time

from postrider_client import AuthenticatedClient
from postrider_client.api.dead_letters import list_dead_letters, replay_dead_letter
from postrider_client.api.events import publish_event
from postrider_client.models import DeadLetterPage, Delivery, EventCreate, Receipt

event_type = os.environ["TYPE"]
client = AuthenticatedClient(base_url=os.environ["SERVER"], token=os.environ["KEY"], raise_on_unexpected_status=True)

receipt = publish_event.sync(client=client, body=EventCreate(account="acme", type_=event_type, data={"order_id": 42}))
assert isinstance(receipt, Receipt), receipt
print(f"published {receipt.id}: {receipt.deliveries} delivery")

deadline = time.monotonic() + 60
while True:
    page = list_dead_letters.sync(client=client, account="acme", event_type=event_type)
    assert isinstance(page, DeadLetterPage), page
    if page.data:
        break
    assert time.monotonic() < deadline, "no dead letter"
    time.sleep(0.1)
letter = page.data[0]
print(
    f"dead letter {letter.delivery}: {letter.reason} after {letter.attempts} attempt, "
    f"last status {letter.last_status_code}, resolution set: {letter.resolution is not None}"
)

replay = replay_dead_letter.sync(letter.delivery, client=client)
assert isinstance(replay, Delivery), replay
print(f"replay {replay.id} of {replay.replayed_from}: {replay.status}")
