# docs:begin
from django.db import connection
from django.test import TestCase, TransactionTestCase

from shop.models import place


def published():
    with connection.cursor() as cursor:
        cursor.execute("select account, type from postrider.outbox order by number")
        return cursor.fetchall()


class PlaceTest(TestCase):
    def test_an_order_is_published(self):
        place("A-1", 4200)
        self.assertEqual(published(), [("acme", "order.created")])


class DeclinedTest(TransactionTestCase):
    def tearDown(self):  # Django empties the tables of its models alone
        with connection.cursor() as cursor:
            cursor.execute("truncate postrider.outbox")

    def test_only_a_paid_order_is_published(self):
        with self.assertRaises(ValueError):
            place("A-2", 100, paid=False)
        place("A-3", 100)
        self.assertEqual(published(), [("acme", "order.created")])
# docs:end


class NextTest(TransactionTestCase):
    def test_the_outbox_is_empty(self):
        self.assertEqual(published(), [])
