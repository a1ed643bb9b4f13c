// Requests to the REST API, with the session's token. Failures are ApiErrors with the cluster's message.

import { authorization, logOut } from "./session.ts";

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly details: string[] = [],
  ) {
    super(message);
  }

  static of(caught: unknown): ApiError {
    return caught instanceof ApiError ? caught : new ApiError(String(caught), 0);
  }
}

export async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const form = body instanceof FormData;
  const headers: Record<string, string> = {};
  if (body !== undefined && !form) headers["Content-Type"] = "application/json";
  const content = body === undefined ? undefined : form ? body : JSON.stringify(body);
  const response = await request(path, { method, headers, body: content });
  return response.json();
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", path)) as T;
}

/** The last so many bytes of a file. */
export async function tail(path: string, size: number): Promise<{ text: string; size: number; start: number }> {
  const response = await request(path, { headers: { Range: `bytes=-${size}` } });
  const range = /bytes (?:(\d+)-\d+|\*)\/(\d+)/.exec(response.headers.get("Content-Range") ?? "");
  const text = await response.text();
  return { text, size: Number(range?.[2] ?? text.length), start: Number(range?.[1] ?? 0) };
}

async function request(path: string, options: RequestInit & { headers: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, ...(await authorization()) } });
  } catch {
    throw new ApiError("The dispatcher does not respond.", 0);
  }
  if (response.ok) return response;
  const body = (await response.json().catch(() => ({}))) as { errors?: string[] };
  const [first = `The cluster returned ${response.status}.`, ...rest] = body.errors ?? [];
  if (response.status === 401) logOut(first);
  throw new ApiError(first, response.status, rest);
}

const POLL_MS = 500;

interface Operation {
  status: { id: string };
  operation?: { location?: string; "failure-cause"?: { "stack-trace": string } };
}

/** The outcome of a triggered operation; polls until it has completed. */
export async function outcome(path: string): Promise<{ location?: string }> {
  for (;;) {
    const { status, operation = {} } = await get<Operation>(path);
    if (status.id === "COMPLETED") {
      const failed = operation["failure-cause"];
      if (failed !== undefined) throw new ApiError(failed["stack-trace"], 200);
      return operation;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
