# docs:begin
import json

from django.db import connection, models, transaction


class Order(models.Model):
    number = models.TextField(unique=True)
    total = models.IntegerField()
    # docs:end

    class Meta:
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
