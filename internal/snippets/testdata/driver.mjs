import { createInterface } from 'node:readline'

const text = (hex) => Buffer.from(hex, 'hex').toString()

for await (const line of createInterface({ input: process.stdin })) {
  const [name, body, secrets, ...fields] = line.split('\t')
  const headers = {}
  for (let i = 0; i < fields.length; i += 2) headers[fields[i].toLowerCase()] = text(fields[i + 1])
  const { verify } = await import(`./${name}.mjs`)
  try {
    console.log(String(verify(headers, Buffer.from(body, 'hex'), secrets.split('.').slice(1).map(text))))
  } catch (error) {
    console.log(String(error))
  }
}
