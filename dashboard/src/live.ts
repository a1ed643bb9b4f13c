// What paths of the REST API answer, kept up to date while something on the page shows it.
//
// One stream of server-sent events carries all of them; it is opened again when other paths are wanted. While there is
// no stream they are asked for one by one every few seconds, and each time the stream is tried again. Each path has one
// signal, whose value is replaced when the answer changes: what shows it is updated in place.

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
/** When the cluster was last heard of, in milliseconds since the epoch; 0: never. */
export const heard = signal(0);

const EMPTY: Live<never> = { data: undefined, error: "", status: 0 };
const REMEMBERED = 60;
const POLL_MS = 3000;
const ASKED_MS = 5000;
const SILENCE_MS = 40_000; // the cluster says something every 15 s: a longer silence is a connection that was cut
const SHORTEST_MS = 500; // that a stream lasts; one that ends sooner is not opened again at once
const answers = new Map<string, Signal<Live<unknown>>>();
const wanted = new Map<string, number>();
const EXPIRED = "The token does not count any more.";
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

/** The same of a path that answers more than readers may see, which the stream does not carry: asked for now and then. */
export function useAsked<T>(path: string): Live<T> {
  useEffect(() => {
    const ask = () => {
      if (document.visibilityState !== "hidden") void poll(path);
    };
    ask();
    const timer = setInterval(ask, ASKED_MS);
    return () => clearInterval(timer);
  }, [path]);
  return answerOf(path).value as Live<T>;
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

/** Takes what the paths answer, until the stream ends, fails or is silent. */
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
    if (!response.ok || response.body === null) throw new Error(`the stream answered ${response.status}`);
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
        const told = JSON.parse(event.data) as { path: string; status: number; body: unknown };
        take(told.path, told.status, told.body);
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
  const answer = answerOf(path);
  heard.value = Date.now();
  if (status === 401) logOut(EXPIRED);
  if (status < 300) {
    answer.value = { data: body, error: "", status };
  } else {
    const said = (body as { errors?: string[] } | null)?.errors?.[0] ?? `The cluster answered ${status}.`;
    answer.value = { data: status === 503 ? answer.peek().data : undefined, error: said, status };
  }
}
