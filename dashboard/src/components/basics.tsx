// Small components that all pages share.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { percent, stateName } from "../format.ts";
import type { Live } from "../live.ts";
import { link } from "../router.ts";

const TONES: Record<string, string> = {
  RUNNING: "good",
  IDLE: "quiet",
  STARTING: "warn",
  UNSTABLE: "warn",
  BACKPRESSURED: "pressed",
  STALLED: "bad",
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
  return <span class={`badge ${TONES[state] ?? "quiet"}`}>{stateName(state)}</span>;
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
          {above !== undefined && <nav class="crumbs" aria-label="Breadcrumb">{above}</nav>}
          <h1 tabIndex={-1}>{title}</h1>
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

/** Links to the parts of a page, at paths beneath its own. */
export function Tabs({ label, root, parts, current }: { label: string; root: string[]; parts: [string, string][]; current: string }): JSX.Element {
  return (
    <nav class="tabs" aria-label={label}>
      {parts.map(([part, words]) => (
        <a key={part} href={link(...root, part)} aria-current={part === current ? "page" : undefined}>{words}</a>
      ))}
    </nav>
  );
}

export function Card({
  title,
  aside,
  children,
  flush = false,
}: {
  title?: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  flush?: boolean;
}): JSX.Element {
  return (
    <section class={flush ? "card flush" : "card"} aria-label={title}>
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

/** Shows the response of a path, or the reason why there is none. */
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
        {from.error !== "" && <Notice tone="warn">Out of date: {from.error}</Notice>}
        {children(from.data)}
      </>
    );
  }
  if (from.error !== "") return <Unavailable status={from.status} error={from.error} />;
  return <p class="loading" role="status">Loading {what} …</p>;
}

/** An error of the cluster in place of what cannot be shown. */
export function Unavailable({ status, error }: { status: number; error: string }): JSX.Element {
  return <Notice tone={status === 404 ? "quiet" : "bad"}>{error}</Notice>;
}

/** Time in three parts: busy, backpressured and idle. The figures are beside it, for screen readers. */
export function TimeBar({ busy, backpressured }: { busy: number | null; backpressured: number | null }): JSX.Element {
  if (busy === null || backpressured === null) return <span class="time-bar unknown" aria-hidden="true" />;
  const ends = { "--busy-to": `${busy * 100}%`, "--backpressured-to": `${(busy + backpressured) * 100}%` };
  return <span class="time-bar" style={ends} aria-hidden="true" />;
}

/** A part of a whole, as a bar and in percent. */
export function ShareBar({ share }: { share: number }): JSX.Element {
  return (
    <span class="progress">
      <span class="share-bar" style={{ "--share-to": `${Math.min(1, share) * 100}%` }} aria-hidden="true" />
      {percent(share)}
    </span>
  );
}

export function Search({ label, value, onInput }: { label: string; value: string; onInput: (value: string) => void }): JSX.Element {
  return (
    <label class="search">
      <span class="hidden">{label}</span>
      <input type="search" placeholder={label} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
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

/** Calls back with the element's size, now and whenever it changes; the element may appear later or be replaced. */
export function useSize(onSize: (width: number, height: number) => void): { current: HTMLDivElement | null } {
  const element = useRef<HTMLDivElement>(null);
  const observed = useRef<HTMLDivElement | null>(null);
  const observer = useRef<ResizeObserver | null>(null);
  const latest = useRef(onSize);
  latest.current = onSize;
  useEffect(() => {
    if (element.current === observed.current) return;
    observer.current?.disconnect();
    observed.current = element.current;
    if (element.current === null) return;
    observer.current = new ResizeObserver(([entry]) => {
      if (entry !== undefined) latest.current(entry.contentRect.width, entry.contentRect.height);
    });
    observer.current.observe(element.current);
  });
  useEffect(() => () => observer.current?.disconnect(), []);
  return element;
}
