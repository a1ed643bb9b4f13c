// How the server proves that it knows a token before the token is sent to it, as in millstream/core/services/challenge.py:
// the page sends the token's name, which does not reveal it, and a number that is used once; the server returns an HMAC
// over the number. A process that has taken the dispatcher's port cannot. Pure.

const OF_SECRET = /^([a-z]+\.[0-9]{1,12})\.[0-9a-f]{64}$/;
const encoder = new TextEncoder();

/** Whether this page can verify a proof: browsers offer cryptography only on pages of loopback and HTTPS. */
export function canChallenge(): boolean {
  return globalThis.crypto?.subtle !== undefined;
}

export function newNonce(): string {
  return hex(crypto.getRandomValues(new Uint8Array(16)));
}

export async function nameOfToken(token: string): Promise<string> {
  return OF_SECRET.exec(token)?.[1] ?? (await sha256(await sha256(token))).slice(0, 16);
}

export async function proof(token: string, nonce: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(await sha256(token)), algorithm, false, ["sign"]);
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(`millstream server ${nonce}`))));
}

async function sha256(text: string): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(text))));
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
