// What surrounds every page: the name, the navigation, and the state of the connection.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { time } from "../format.ts";
import { connection, lastResponse } from "../live.ts";
import { link, route } from "../router.ts";
import { endedJobs } from "../places.ts";
import { caller, logOut, token } from "../session.ts";
import { theme, type Theme } from "../theme.ts";
import { Notice } from "./basics.tsx";

const PLACES: [string, string, string][] = [
  ["", "Overview", "M3 12h5V3H3v9Zm0 9h5v-6H3v6Zm8 0h10v-9H11v9Zm0-18v6h10V3H11Z"],
  ["jobs", "Running jobs", "M5 4v16l14-8L5 4Z"],
  ["ended", "Ended jobs", "M4 5h16v4H4V5Zm1 6h14v9H5v-9Zm4 2v2h6v-2H9Z"],
  ["taskmanagers", "Task managers", "M4 4h16v6H4V4Zm0 10h16v6H4v-6Zm3-7.5v1h2v-1H7Zm0 10v1h2v-1H7Z"],
  ["jobmanager", "Job manager", "M12 3 3 8v2h18V8l-9-5ZM5 12v6H3v3h18v-3h-2v-6h-3v6h-2.500v-6h-3v6H8v-6H5Z"],
  ["wheels", "Wheels", "M12 2 3 7v10l9 5 9-5V7l-9-5Zm0 2.300L18.500 8 12 11.600 5.500 8 12 4.300ZM5 9.700l6 3.300v6.600l-6-3.300V9.700Zm8 9.900V13l6-3.300v6.600l-6 3.300Z"],
  ["state", "State", "M12 3c-4.400 0-8 1.300-8 3v12c0 1.700 3.600 3 8 3s8-1.300 8-3V6c0-1.700-3.600-3-8-3Zm6 15c-.5.5-2.800 1.300-6 1.300S6.500 18.500 6 18v-3c1.500.7 3.600 1 6 1s4.500-.3 6-1v3Zm0-5.300c-.5.500-2.800 1.300-6 1.300s-5.500-.8-6-1.300V9.300c1.500.7 3.600 1 6 1s4.500-.3 6-1v3.400ZM12 8.300c-3.200 0-5.500-.8-6-1.300.5-.5 2.800-1.300 6-1.300s5.500.8 6 1.300c-.5.500-2.800 1.300-6 1.300Z"],
];

const WORDS = {
  connecting: "Connecting",
  live: "Live",
  polling: "Polling",
  offline: "Not connected",
};

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
  const main = useRef<HTMLElement>(null);
  const here = route.value.parts;
  const page = here.slice(0, here[0] === "jobs" ? 2 : 3).join("/") + (here[2] === "vertices" ? here[3] : "");
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    main.current?.querySelector("h1")?.focus({ preventScroll: true });
    scrollTo({ top: 0 });
  }, [page]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>Skip to content</button>
      <header class="top">
        <a class="brand" href="#/">
          <img src="/assets/favicon.svg" alt="" width="28" height="28" />
          Millstream
        </a>
        <div class="top-right">
          <span class={`connection ${connection.value}`} role="status" aria-live="polite">{WORDS[connection.value]}</span>
          <label class="theme">
            <span class="hidden">Theme</span>
            <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
              <option value="system">System theme</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          <span class="who">{who()}</span>
          {token.value !== "" && <button type="button" onClick={() => logOut()}>Log out</button>}
        </div>
      </header>
      <nav class="side" aria-label="Pages">
        <ul>
          {PLACES.map(([path, name, icon]) => (
            <li key={path}>
              <a href={link(path)} aria-current={path === placeOf(here) ? "page" : undefined}>
                <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><path d={icon} /></svg>
                {name}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        {connection.value === "offline" && (
          <Notice tone="bad">The dispatcher does not respond.{lastResponse.value > 0 && <> Showing data as of {time(lastResponse.value)}.</>} Retrying …</Notice>
        )}
        {children}
      </main>
    </div>
  );
}

/** The entry of the navigation that a page belongs to: a job is under running jobs until it has ended. */
function placeOf(here: string[]): string {
  const [first = "", id] = here;
  return first === "jobs" && id !== undefined && endedJobs.value.has(id) ? "ended" : first;
}

function who(): string {
  const known = caller.value;
  if (known === null) return "";
  const role = { read: "Viewer", operate: "Operator", submit: "Administrator" }[known.role] ?? known.role;
  return known.name === "" ? role : `${known.name} (${role})`;
}
