// Places two orders with pg: one transaction commits and one is rolled back. PGHOST, PGDATABASE and
// PGUSER say where the database is.
import pg from "pg";

const pool = new pg.Pool();

// docs:begin
async function transaction(work) {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

async function publish(client, account, type, data) {
  const { rows } = await client.query(
    "select postrider.publish(account => $1, type => $2, data => $3) as event",
    [account, type, JSON.stringify(data)],
  );
  return rows[0].event;
}

async function place(client, order) {
  await client.query("insert into orders (number, total) values ($1, $2)", [order.number, order.total]);
  return publish(client, "acme", "order.created", order);
}
// docs:end

// docs:begin
console.log(await transaction((client) => place(client, { number: "A-1", total: 4200 })));

await transaction(async (client) => {
  await place(client, { number: "A-2", total: 100 });
  throw new Error("the card was declined"); // rolls back: no order, no event
}).catch((error) => {
  if (error.message !== "the card was declined") throw error;
});
// docs:end

await pool.end();
