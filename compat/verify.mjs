// Verifies requests with the npm packages that receivers under Node.js use.
//
//     node verify.mjs checks.json
//
// compat_test.go writes checks.json, an array of {library, secret, type,
// header, body}: type is how the API names the secret's (hmac, text, ed25519),
// header has lower-case names, body is base64. The answer on stdout is an array
// in the same order: true, or false where the library called the signature
// wrong. Any other trouble ends the program with a stack and status 1: a call
// that was mistaken is no rejection.

import { Buffer } from 'node:buffer';
import { createPublicKey, verify as verifyBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { argv, stdout } from 'node:process';

import { verify as verifyGitHub } from '@octokit/webhooks-methods';
import '@shopify/shopify-api/adapters/web-api';
import { ApiVersion, LogSeverity, shopifyApi } from '@shopify/shopify-api';
import * as standardwebhooks from 'standardwebhooks';
import Stripe from 'stripe';
import * as svix from 'svix';

const stripe = new Stripe('sk_test_that_is_never_used');

// Each returns a boolean, or throws; a Buffer is what express.raw() hands over.
const libraries = {
  standardwebhooks({ secret, type, header, body }) {
    new standardwebhooks.Webhook(secret, formatOf(type)).verify(body, header);
    return true;
  },

  svix({ secret, type, header, body }) {
    new svix.Webhook(secret, formatOf(type)).verify(body, header);
    return true;
  },

  stripe({ secret, header, body }) {
    stripe.webhooks.constructEvent(body, header['stripe-signature'], secret);
    return true;
  },

  '@octokit/webhooks-methods'({ secret, header, body }) {
    return verifyGitHub(secret, body.toString('utf8'), header['x-hub-signature-256']);
  },

  // It demands headers besides the signature, and says which it misses.
  async '@shopify/shopify-api'({ secret, header, body }) {
    const shopify = shopifyApi({
      apiKey: 'receiver', apiSecretKey: secret, apiVersion: ApiVersion.January25, hostName: 'receiver.example', isEmbeddedApp: false,
      logger: { level: LogSeverity.Error, log: () => {} },
    });
    const rawRequest = new Request('https://receiver.example/hooks', { method: 'POST', headers: header });
    const result = await shopify.webhooks.validate({ rawBody: body.toString('utf8'), rawRequest });
    if (!result.valid && result.reason !== 'invalid_hmac') throw new Error(JSON.stringify(result));
    return result.valid;
  },

  // No released package verifies v1a: this is all that a receiver needs instead.
  'node:crypto'({ secret, header, body }) {
    const x = Buffer.from(secret.replace(/^whpk_/, ''), 'base64').toString('base64url');
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    const signed = Buffer.concat([Buffer.from(`${header['webhook-id']}.${header['webhook-timestamp']}.`), body]);
    return header['webhook-signature'].split(' ')
      .map((item) => item.split(','))
      .some(([version, text]) => version === 'v1a' && verifyBytes(null, signed, key, Buffer.from(text, 'base64')));
  },
};

// A text secret is the key itself; any other has its bytes in base64.
function formatOf(type) {
  return type === 'text' ? { format: 'raw' } : {};
}

const rejections = [
  standardwebhooks.WebhookVerificationError,
  svix.WebhookVerificationError,
  Stripe.errors.StripeSignatureVerificationError,
];

async function verified(check) {
  try {
    return await libraries[check.library]({ ...check, body: Buffer.from(check.body, 'base64') });
  } catch (err) {
    if (rejections.some((rejection) => err instanceof rejection)) return false;
    throw err;
  }
}

const verdicts = [];
for (const check of JSON.parse(readFileSync(argv[2], 'utf8'))) {
  verdicts.push(await verified(check));
}
stdout.write(JSON.stringify(verdicts));
