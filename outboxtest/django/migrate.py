"""Makes the outbox by a migration of Django. PGHOST, PGDATABASE and PGUSER say where the database is."""

import os
from pathlib import Path

import django
from django.conf import settings
from django.db import connection, migrations
from django.db.migrations.state import ProjectState

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}},
)
django.setup()


# docs:begin
class Migration(migrations.Migration):
    operations = [migrations.RunSQL(Path("db/outbox.sql").read_text(), migrations.RunSQL.noop)]
# docs:end


with connection.schema_editor(atomic=True) as editor:
    Migration("0002_outbox", "shop").apply(ProjectState(), editor)
