// Responses of the REST API by path, kept up to date while something on the page shows them.
//
// One stream of server-sent events carries all of them; it is opened again when other paths are wanted. While there is
// no stream they are requested one by one every few seconds, and each time the stream is tried again. Each path has one
// signal, whose value is replaced when the response changes: components that show it are updated in place.

import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { authorization, loggedIn, logOut } from "./session.ts";
import { EventParser } from "./sse.ts";

export interface Live<T> {
  data: T | undefined;
  /** The cluster's error message; empty if there is none. */
  error: string;
  status: number;
}

export type Connection = "connecting" | "live" | "polling" | "offline";

export const connection = signal<Connection>("connecting");
/** When the last response came, in milliseconds since the epoch; 0: never. */
export const lastResponse = signal(0);

const EMPTY: Live<never> = { data: undefined, error: "", status: 0 };
const REMEMBERED = 60;
const POLL_MS = 3000;
const POLLED_MS = 5000;
const SILENCE_MS = 40_000; // the cluster sends something every 15 s: a longer silence is a connection that was cut
const SHORTEST_MS = 500; // that a stream lasts; one that ends sooner is not opened again at once
const responses = new Map<string, Signal<Live<unknown>>>();
const wanted = new Map<string, number>();
const EXPIRED = "The token is no longer valid.";
let changed: () => void = () => undefined;
let running = false;

function responseOf(path: string): Signal<Live<unknown>> {
  let found = responses.get(path);
  if (found === undefined) {
    found = signal<Live<unknown>>(EMPTY);
    responses.set(path, found);
    for (const old of responses.keys()) {
      if (responses.size <= REMEMBERED) break;
      if (!wanted.has(old) && old !== path) responses.delete(old);
    }
  }
  return found;
}

/** What the path returns now; null: nothing is wanted. The component is rendered again when it changes. */
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
  return path === null ? EMPTY : (responseOf(path).value as Live<T>);
}

/** The same for a path that needs more than the role of readers: the stream does not carry it, it is polled. */
export function usePolled<T>(path: string): Live<T> {
  useEffect(() => {
    const request = () => {
      if (document.visibilityState !== "hidden") void poll(path);
    };
    request();
    const timer = setInterval(request, POLLED_MS);
    return () => clearInterval(timer);
  }, [path]);
  return responseOf(path).value as Live<T>;
}

/** Requests the paths at once, after an action that changes them. */
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

/** Takes the responses of the paths, until the stream ends, fails or is silent. */
async function stream(paths: string[], aborted: AbortSignal): Promise<void> {
  const query = new URLSearchParams(paths.map((path) => ["path", path]));
  const silent = new AbortController();
  const opened = performance.now();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const either = AbortSignal.any([aborted, silent.signal]);
    const headers = await authorization();
    const response = await fetch(`/updates?${query}`, { headers, signal: either, cache: "no-store" });
    if (response.status === 401) logOut(EXPIRED);
    if (!response.ok || response.body === null) throw new Error(`the stream returned ${response.status}`);
    connection.value = "live";
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done && performance.now() - opened < SHORTEST_MS) throw new Error("the stream ended at once");
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        const update = JSON.parse(event.data) as { path: string; status: number; body: unknown };
        take(update.path, update.status, update.body);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

async function poll(path: string): Promise<boolean> {
  try {
    const response = await fetch(path, { headers: await authorization(), cache: "no-store" });
    take(path, response.status, await response.json());
    return true;
  } catch {
    return false;
  }
}

function take(path: string, status: number, body: unknown): void {
  const known = responseOf(path);
  lastResponse.value = Date.now();
  if (status === 401) logOut(EXPIRED);
  if (status < 300) {
    known.value = { data: body, error: "", status };
  } else {
    const error = (body as { errors?: string[] } | null)?.errors?.[0] ?? `The cluster returned ${status}.`;
    known.value = { data: status === 503 ? known.peek().data : undefined, error, status };
  }
}
