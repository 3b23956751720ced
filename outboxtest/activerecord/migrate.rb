# Makes the outbox by a migration of Active Record. PGHOST, PGDATABASE and PGUSER say where the
# database is.
require "active_record"

ActiveRecord::Base.establish_connection(adapter: "postgresql")
ActiveRecord::Migration.verbose = false

# docs:begin
class AddOutbox < ActiveRecord::Migration[6.1]
  def up
    execute File.read("#{__dir__}/outbox.sql")
  end
end
# docs:end

ActiveRecord::Base.transaction { AddOutbox.new.migrate(:up) }
