"""Places two orders with SQLAlchemy: one transaction commits and one is rolled back.

PGHOST, PGDATABASE and PGUSER say where the database is.
"""

import json

from sqlalchemy import create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = create_engine("postgresql+psycopg://")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str]
    total: Mapped[int]


# docs:begin
PUBLISH = text("select postrider.publish(account => :account, type => :type, data => cast(:data as json))")


def publish(session, account, type, data):
    return session.scalar(PUBLISH, {"account": account, "type": type, "data": json.dumps(data)})


def place(session, number, total):
    order = Order(number=number, total=total)
    session.add(order)
    session.flush()  # inserts the order, so that its id is known
    return publish(session, "acme", "order.created", {"number": order.number, "total": order.total})
# docs:end


# docs:begin
with Session(engine) as session, session.begin():
    print(place(session, "A-1", 4200))

try:
    with Session(engine) as session, session.begin():
        place(session, "A-2", 100)
        raise ValueError("the card was declined")  # rolls back: no order, no event
except ValueError:
    pass
# docs:end
