"""Places two orders with Django: one transaction commits and one is rolled back."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from shop.models import place  # noqa: E402

print(place("A-1", 4200))
try:
    place("A-2", 100, paid=False)
except ValueError:
    pass
