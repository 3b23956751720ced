"""Makes the outbox by a migration of Alembic. PGHOST, PGDATABASE and PGUSER say where the database is."""

# docs:begin
from pathlib import Path

from alembic import op
# docs:end
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine


# docs:begin
def upgrade():
    script = Path(__file__).with_name("outbox.sql").read_text()
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
# docs:end


with create_engine("postgresql+psycopg://").begin() as connection:
    with Operations.context(MigrationContext.configure(connection)):
        upgrade()
