// What paths of the REST API answer, kept up to date while something on the page shows it.
//
// One stream of server-sent events carries all of them; it is opened anew when other paths are wanted. While there is
// no stream they are asked for one by one every few seconds. Each path has one signal, whose value is replaced when the
// answer changes: what shows it is updated in place.

import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { authorization, loggedIn, logOut } from "./session.ts";
import { EventParser } from "./sse.ts";

export interface Live<T> {
  data: T | undefined;
  /** In the cluster's words; empty while all is well. */
  error: string;
  status: number;
}

export type Connection = "connecting" | "live" | "polling" | "offline";

export const connection = signal<Connection>("connecting");

const EMPTY: Live<never> = { data: undefined, error: "", status: 0 };
const REMEMBERED = 60;
const POLL_MS = 3000;
const answers = new Map<string, Signal<Live<unknown>>>();
const wanted = new Map<string, number>();
let changed: () => void = () => undefined;
let running = false;

function answerOf(path: string): Signal<Live<unknown>> {
  let found = answers.get(path);
  if (found === undefined) {
    found = signal<Live<unknown>>(EMPTY);
    answers.set(path, found);
    for (const old of answers.keys()) {
      if (answers.size <= REMEMBERED) break;
      if (!wanted.has(old) && old !== path) answers.delete(old);
    }
  }
  return found;
}

/** What the path answers now; null: nothing is wanted. The component is rendered again when it changes. */
export function useLive<T>(path: string | null): Live<T> {
  useEffect(() => {
    if (path === null) return undefined;
    wanted.set(path, (wanted.get(path) ?? 0) + 1);
    reopen();
    return () => {
      const left = (wanted.get(path) ?? 1) - 1;
      if (left > 0) wanted.set(path, left);
      else wanted.delete(path);
      reopen();
    };
  }, [path]);
  return path === null ? EMPTY : (answerOf(path).value as Live<T>);
}

/** Asks for the paths at once, after something was done that changes them. */
export function refresh(...paths: string[]): void {
  for (const path of paths) if (wanted.has(path)) void poll(path);
}

let scheduled = false;

function reopen(): void {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    changed();
    if (!running) void run();
  }, 15);
}

document.addEventListener("visibilitychange", () => reopen());

async function run(): Promise<void> {
  running = true;
  let open: string | null = null;
  for (;;) {
    const abort = new AbortController();
    const change = new Promise<void>((resolve) => {
      changed = () => {
        if (key() !== open) {
          abort.abort();
          resolve();
        }
      };
    });
    open = key();
    if (open === "") {
      await change;
      continue;
    }
    const paths = open.split("\n");
    try {
      await stream(paths, abort.signal);
    } catch {
      if (!abort.signal.aborted) {
        const reached = await Promise.all(paths.map(poll));
        connection.value = reached.some(Boolean) ? "polling" : "offline";
        await Promise.race([change, new Promise((resolve) => setTimeout(resolve, POLL_MS))]);
      }
    }
  }
}

function key(): string {
  if (!loggedIn.value || document.visibilityState === "hidden") return "";
  return [...wanted.keys()].sort().join("\n");
}

async function stream(paths: string[], aborted: AbortSignal): Promise<void> {
  const query = new URLSearchParams(paths.map((path) => ["path", path]));
  const response = await fetch(`/updates?${query}`, { headers: authorization(), signal: aborted, cache: "no-store" });
  if (response.status === 401) logOut("The token does not count any more.");
  if (!response.ok || response.body === null) throw new Error(`the stream answered ${response.status}`);
  connection.value = "live";
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) {
      const told = JSON.parse(event.data) as { path: string; status: number; body: unknown };
      take(told.path, told.status, told.body);
    }
  }
}

async function poll(path: string): Promise<boolean> {
  try {
    const response = await fetch(path, { headers: authorization(), cache: "no-store" });
    take(path, response.status, await response.json());
    return true;
  } catch {
    return false;
  }
}

function take(path: string, status: number, body: unknown): void {
  const answer = answerOf(path);
  if (status < 300) {
    answer.value = { data: body, error: "", status };
  } else {
    const said = (body as { errors?: string[] } | null)?.errors?.[0] ?? `The cluster answered ${status}.`;
    answer.value = { data: status === 503 ? answer.peek().data : undefined, error: said, status };
  }
}
