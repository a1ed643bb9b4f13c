// The small parts that all pages are made of.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Live } from "../live.ts";

const TONES: Record<string, string> = {
  RUNNING: "good",
  FINISHED: "done",
  COMPLETED: "good",
  FAILED: "bad",
  FAILING: "bad",
  RESTARTING: "warn",
  CANCELED: "quiet",
  CANCELLING: "warn",
  CANCELING: "warn",
  IN_PROGRESS: "warn",
  INITIALIZING: "warn",
  DEPLOYING: "warn",
  SCHEDULED: "warn",
  CREATED: "quiet",
};

export function Badge({ state }: { state: string }): JSX.Element {
  return <span class={`badge ${TONES[state] ?? "quiet"}`}>{state.replaceAll("_", " ").toLowerCase()}</span>;
}

export function Page({
  title,
  above,
  actions,
  children,
}: {
  title: ComponentChildren;
  above?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <>
      <header class="page-head">
        <div>
          {above !== undefined && <nav class="crumbs" aria-label="Where this is">{above}</nav>}
          <h1 tabIndex={-1}>{title}</h1>
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Card({
  title,
  id,
  aside,
  children,
  flush = false,
}: {
  title?: string;
  id?: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  flush?: boolean;
}): JSX.Element {
  return (
    <section class={flush ? "card flush" : "card"} id={id} aria-label={title}>
      {title !== undefined && (
        <div class="card-head">
          <h2>{title}</h2>
          {aside}
        </div>
      )}
      {children}
    </section>
  );
}

export function Stat({ label, value, note, tone }: { label: string; value: ComponentChildren; note?: ComponentChildren; tone?: string }): JSX.Element {
  return (
    <div class={`stat ${tone ?? ""}`}>
      <dt>{label}</dt>
      <dd>{value}</dd>
      {note !== undefined && <dd class="note">{note}</dd>}
    </div>
  );
}

export function Stats({ children }: { children: ComponentChildren }): JSX.Element {
  return <dl class="stats">{children}</dl>;
}

export function Notice({ tone = "quiet", children }: { tone?: "quiet" | "warn" | "bad" | "good"; children: ComponentChildren }): JSX.Element {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** Shows what a path answers, or in a sentence why it cannot be shown. */
export function Loaded<T>({
  from,
  what,
  children,
}: {
  from: Live<T>;
  what: string;
  children: (data: T) => ComponentChildren;
}): JSX.Element {
  if (from.data !== undefined) {
    return (
      <>
        {from.error !== "" && <Notice tone="warn">Not up to date: {from.error}</Notice>}
        {children(from.data)}
      </>
    );
  }
  if (from.error !== "") return <Unavailable status={from.status} error={from.error} what={what} />;
  return <p class="loading" role="status">Loading {what} …</p>;
}

export function Unavailable({ status, error, what }: { status: number; error: string; what: string }): JSX.Element {
  if (status === 404 && error.startsWith("no such path")) {
    return <Empty>This cluster does not offer {what}.</Empty>;
  }
  return <Notice tone={status === 404 ? "quiet" : "bad"}>{error}</Notice>;
}

/** A share of time in three parts, and in words for who does not see it. */
export function TimeBar({ busy, backpressured }: { busy: number | null; backpressured: number | null }): JSX.Element {
  if (busy === null || backpressured === null) return <span class="time-bar unknown" aria-hidden="true" />;
  return (
    <span class="time-bar" aria-hidden="true">
      <span class="busy" style={{ width: `${busy * 100}%` }} />
      <span class="backpressured" style={{ width: `${backpressured * 100}%` }} />
    </span>
  );
}

export function Copy({ text, what }: { text: string; what: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <button type="button" class="link-button" onClick={copy}>
      <span aria-live="polite">{copied ? "Copied" : `Copy ${what}`}</span>
    </button>
  );
}

/** The value that is set now, some time after it was set last. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(() => value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Calls back with the element's size, now and whenever it changes. */
export function useSize(onSize: (width: number, height: number) => void): { current: HTMLDivElement | null } {
  const element = useRef<HTMLDivElement>(null);
  const latest = useRef(onSize);
  latest.current = onSize;
  useEffect(() => {
    if (element.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) latest.current(entry.contentRect.width, entry.contentRect.height);
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return element;
}
