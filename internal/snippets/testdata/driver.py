import importlib
import sys
from email.message import Message  # headers whose names have no case, as those of frameworks

for line in sys.stdin:
    name, body, secrets, *fields = line.rstrip("\n").split("\t")
    headers = Message()
    for field, value in zip(fields[::2], fields[1::2]):
        headers[field] = bytes.fromhex(value).decode()
    try:
        verified = importlib.import_module(name).verify(
            headers, bytes.fromhex(body), [bytes.fromhex(s).decode() for s in secrets.split(".")[1:]]
        )
        print(str(verified).lower())
    except Exception as error:  # the test reads it
        print(repr(error))
