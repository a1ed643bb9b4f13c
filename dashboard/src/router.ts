// The address's fragment selects the page: `#/jobs/ID/exceptions?key=value`. Paths are the REST API's.

import { signal } from "@preact/signals";
import "./session.ts"; // takes a token out of the address before that is read here

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a percent sign that was typed in
  }
}

export const route = signal<Route>(parse());

addEventListener("hashchange", () => {
  route.value = parse();
});

export function link(...parts: (string | number)[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** The page of a checkpoint's or savepoint's state. */
export function stateLink(path: string): string {
  return `${link("state")}?path=${encodeURIComponent(path)}`;
}

export function go(...parts: (string | number)[]): void {
  location.hash = link(...parts);
}
