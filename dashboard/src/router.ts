// The address's fragment says which page is shown: `#/jobs/ID/exceptions?key=value`. Paths are the REST API's.

import { signal } from "@preact/signals";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

export const route = signal<Route>(parse());

addEventListener("hashchange", () => {
  route.value = parse();
});

export function link(...parts: (string | number)[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function go(...parts: (string | number)[]): void {
  location.hash = link(...parts);
}
