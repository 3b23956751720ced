// Places two orders with Drizzle: one transaction commits and one is rolled back. PGHOST, PGDATABASE
// and PGUSER say where the database is.
import { sql, TransactionRollbackError } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, integer, pgTable, text } from "drizzle-orm/pg-core";
import pg from "pg";

const pool = new pg.Pool();
const db = drizzle({ client: pool });

const orders = pgTable("orders", {
  id: bigint({ mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
  number: text().notNull().unique(),
  total: integer().notNull(),
});

// docs:begin
async function publish(tx, account, type, data) {
  const { rows } = await tx.execute(
    sql`select postrider.publish(account => ${account}, type => ${type}, data => ${JSON.stringify(data)}) as event`,
  );
  return rows[0].event;
}

async function place(tx, order) {
  await tx.insert(orders).values(order);
  return publish(tx, "acme", "order.created", order);
}
// docs:end

// docs:begin
console.log(await db.transaction((tx) => place(tx, { number: "A-1", total: 4200 })));

await db
  .transaction(async (tx) => {
    await place(tx, { number: "A-2", total: 100 });
    tx.rollback(); // throws: no order, no event
  })
  .catch((error) => {
    if (!(error instanceof TransactionRollbackError)) throw error;
  });
// docs:end

await pool.end();
