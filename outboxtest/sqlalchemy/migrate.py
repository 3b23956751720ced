"""Makes the outbox as a migration of Alembic does. PGHOST, PGDATABASE and PGUSER say where the database is."""

from pathlib import Path

from sqlalchemy import create_engine

engine = create_engine("postgresql+psycopg://")


class op:
    """What Alembic has under this name."""

    get_bind = None


# docs:begin
def upgrade():
    script = Path("db/outbox.sql").read_text()
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
# docs:end


with engine.begin() as connection:
    op.get_bind = lambda: connection
    upgrade()
