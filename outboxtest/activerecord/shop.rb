# Places two orders with Active Record: one transaction commits and one is rolled back. PGHOST,
# PGDATABASE and PGUSER say where the database is.
require "active_record"

ActiveRecord::Base.establish_connection(adapter: "postgresql")

class Order < ActiveRecord::Base
end

# docs:begin
module Postrider
  PUBLISH = "select postrider.publish(account => $1, type => $2, data => $3) as event"

  def self.publish(account, type, data)
    ActiveRecord::Base.connection.exec_query(PUBLISH, "publish", [account, type, data.to_json]).first["event"]
  end
end

def place(number, total, paid: true)
  Order.transaction do
    order = Order.create!(number: number, total: total)
    event = Postrider.publish("acme", "order.created", { number: order.number, total: order.total })
    raise ActiveRecord::Rollback unless paid # no order, no event
    event
  end
end
# docs:end

puts place("A-1", 4200)
place("A-2", 100, paid: false)
