// Who is logged in. The token is in this tab's session storage only: it comes in the address's fragment, which browsers
// send to nobody, or is typed in, and is taken out of the address bar at once.

import { computed, signal } from "@preact/signals";

const KEY = "millstream-token";
const ROLES = ["anyone", "read", "operate", "submit"];

export interface Caller {
  name: string;
  role: string;
  credential: string;
}

export const token = signal<string>(takeToken());
export const caller = signal<Caller | null>(null);
/** Why the login page is shown; empty: nothing was tried. */
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

export function authorization(): Record<string, string> {
  return token.value === "" ? {} : { Authorization: `Bearer ${token.value}` };
}

/** Asks the cluster who this is. */
export async function identify(): Promise<void> {
  try {
    const response = await fetch("/whoami", { headers: authorization() });
    unreachable.value = "";
    if (response.ok) {
      caller.value = (await response.json()) as Caller;
    } else {
      const said = (await response.json()) as { errors?: string[] };
      logOut(said.errors?.[0] ?? `the cluster answered ${response.status}`);
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

export function logOut(reason = ""): void {
  sessionStorage.removeItem(KEY);
  token.value = "";
  refusal.value = reason;
  caller.value = { name: "", role: "anyone", credential: "none" };
}
