// A log file's end, read again on request or every two seconds.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, tail } from "../api.ts";
import { byName, bytes, time } from "../format.ts";
import { useLive } from "../live.ts";
import { mainLog } from "../logfiles.ts";
import type { LogFile } from "../types.ts";
import { Card, Empty, Loaded, Notice, Search } from "./basics.tsx";

const SIZE = 128 * 1024;
const EVERY_MS = 2000;

/** The files beneath `root` (`/jobmanager` or `/taskmanagers/ID`), and the end of the chosen one. */
export function Logs({ root }: { root: string }): JSX.Element {
  const files = useLive<{ logs: LogFile[] }>(`${root}/logs`);
  const [chosen, setChosen] = useState("");
  return (
    <Card title="Logs">
      <Loaded from={files} what="log files">
        {({ logs }) => {
          if (logs.length === 0) return <Empty>No log files.</Empty>;
          const sorted = [...logs].sort((a, b) => byName(a.name, b.name)); // by name: sizes and times change while a file is read
          const name = (sorted.find((file) => file.name === chosen) ?? mainLog(sorted))?.name ?? "";
          return (
            <>
              <label class="field inline">
                File
                <select value={name} onChange={(event) => setChosen(event.currentTarget.value)}>
                  {sorted.map((file) => (
                    <option key={file.name} value={file.name}>{file.name} · {bytes(file.size)} · {time(file.mtime)}</option>
                  ))}
                </select>
              </label>
              <LogTail key={name} path={`${root}/logs/${encodeURIComponent(name)}`} name={name} />
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function LogTail({ path, name }: { path: string; name: string }): JSX.Element {
  const [shown, setShown] = useState<{ text: string; size: number; start: number } | null>(null);
  const [error, setError] = useState("");
  const [follows, setFollows] = useState(false);
  const [sought, setSought] = useState("");
  const frame = useRef<HTMLPreElement>(null);
  useEffect(() => {
    let current = true;
    const read = (): void => {
      tail(path, SIZE)
        .then((found) => {
          if (!current) return;
          setShown((before) => (before !== null && before.size === found.size ? before : found));
          setError("");
        })
        .catch((caught: unknown) => current && setError(ApiError.of(caught).message));
    };
    read();
    const timer = follows ? setInterval(read, EVERY_MS) : undefined;
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [path, follows]);
  useEffect(() => {
    if (frame.current !== null) frame.current.scrollTop = frame.current.scrollHeight;
  }, [shown]);
  if (error !== "") return <Notice tone="bad">{error}</Notice>;
  if (shown === null) return <p class="loading" role="status">Loading {name} …</p>;
  const lines = shown.text.split("\n").filter((line) => line.toLowerCase().includes(sought.toLowerCase()));
  return (
    <>
      <div class="log-tools">
        <Search label="Filter lines" value={sought} onInput={setSought} />
        <label class="check"><input type="checkbox" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} /> Follow</label>
        {shown.start > 0 && <span class="note">The last {bytes(shown.size - shown.start)} of {bytes(shown.size)}</span>}
      </div>
      <pre class="log" ref={frame} tabIndex={0} role="region" aria-label={`Log ${name}`}>
        {lines.map((line, number) => (
          <span key={number} class={/\b(ERROR|CRITICAL)\b/.test(line) ? "error" : /\bWARNING\b/.test(line) ? "warning" : ""}>{`${line}\n`}</span>
        ))}
      </pre>
    </>
  );
}
