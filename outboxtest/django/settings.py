"""Settings of the project. PGHOST, PGDATABASE and PGUSER say where the database is."""

import os

DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["shop"]
SECRET_KEY = "not one"
