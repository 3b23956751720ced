"""Places two orders with Django: one transaction commits and one is rolled back.

PGHOST, PGDATABASE and PGUSER say where the database is.
"""

import json
import os

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}},
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402


class Order(models.Model):
    number = models.TextField(unique=True)
    total = models.IntegerField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


# docs:begin
def publish(account, type, data):
    with connection.cursor() as cursor:
        cursor.execute(
            "select postrider.publish(account => %s, type => %s, data => %s)",
            [account, type, json.dumps(data)],
        )
        return cursor.fetchone()[0]


@transaction.atomic
def place(number, total, paid=True):
    order = Order.objects.create(number=number, total=total)
    event = publish("acme", "order.created", {"number": order.number, "total": order.total})
    if not paid:
        raise ValueError("the card was declined")  # rolls back: no order, no event
    return event
# docs:end


print(place("A-1", 4200))
try:
    place("A-2", 100, paid=False)
except ValueError:
    pass
