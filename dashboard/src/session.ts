// Who is logged in. The token is in this tab's session storage only: it comes in the address's fragment, which browsers
// do not send, or is typed in, and is removed from the address bar at once. Before each request with the token, the
// server proves that it knows the token: another program may have taken the port of a dispatcher that is down.

import { computed, signal } from "@preact/signals";
import { canChallenge, nameOfToken, newNonce, proof } from "./challenge.ts";

const KEY = "millstream-token";
const UNKNOWN = "The token is not valid for this cluster, or has expired.";
const ROLES = ["anyone", "read", "operate", "submit"];

export interface Caller {
  name: string;
  role: string;
  credential: string;
}

export const token = signal<string>(takeToken());
export const caller = signal<Caller | null>(null);
/** Why the login page is shown; empty: no token has been tried. */
export const refusal = signal<string>("");
export const unreachable = signal<string>("");

function takeToken(): string {
  const given = /^#token=([^&]+)/.exec(location.hash)?.[1];
  if (given !== undefined) {
    sessionStorage.setItem(KEY, decodeURIComponent(given));
    history.replaceState(null, "", `${location.pathname}#/`);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

export function may(role: "read" | "operate" | "submit"): boolean {
  return ROLES.indexOf(caller.value?.role ?? "anyone") >= ROLES.indexOf(role);
}

export const loggedIn = computed(() => may("read"));

/** The headers that send the token. Throws when the server does not know the token. */
export async function authorization(): Promise<Record<string, string>> {
  const given = token.value;
  if (given === "") return {};
  if (!(await isKnown(given))) {
    logOut(UNKNOWN);
    throw new Error(UNKNOWN);
  }
  return { Authorization: `Bearer ${given}` };
}

/** Whether the server knows the token; it responds with 404 when it does not. Throws when its proof is wrong. */
async function isKnown(given: string): Promise<boolean> {
  if (!canChallenge()) return true;
  const nonce = newNonce();
  const query = new URLSearchParams({ token: await nameOfToken(given), nonce });
  const response = await fetch(`/challenge?${query}`, { cache: "no-store" });
  if (response.status === 404) return false;
  const shown = (await response.json()) as { proof?: string };
  if (!response.ok || shown.proof !== (await proof(given, nonce))) {
    throw new Error("the server has not proven that it knows the token");
  }
  return true;
}

/** Requests the name and role that belong to the token. */
export async function identify(): Promise<void> {
  try {
    const known = token.value === "" || (await isKnown(token.value));
    if (!known) forget();
    const response = await fetch("/whoami", { headers: await authorization() });
    unreachable.value = "";
    if (response.ok) {
      caller.value = (await response.json()) as Caller;
      if (!known && !loggedIn.value) refusal.value = UNKNOWN;
    } else {
      const body = (await response.json()) as { errors?: string[] };
      logOut(body.errors?.[0] ?? `The cluster returned ${response.status}.`);
    }
  } catch {
    unreachable.value = "The dispatcher does not respond.";
    setTimeout(() => void identify(), 2000);
  }
}

export async function logIn(given: string): Promise<void> {
  sessionStorage.setItem(KEY, given);
  token.value = given;
  refusal.value = "";
  await identify();
}

function forget(): void {
  sessionStorage.removeItem(KEY);
  token.value = "";
}

export function logOut(reason = ""): void {
  forget();
  refusal.value = reason;
  caller.value = { name: "", role: "anyone", credential: "none" };
}
