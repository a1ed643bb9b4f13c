// What the tasks of a job or a vertex logged and printed, live.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { shortId, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { LogEvent } from "../types.ts";
import { Card, Empty, Loaded } from "./basics.tsx";

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];
const LIMIT = 300;
const AT_THE_END = 40;

/** `job`: its id, if these are the logs of a whole job. */
export function TaskLog({ path, job }: { path: string; job?: string }): JSX.Element {
  const [level, setLevel] = useState("");
  const [sought, setSought] = useState("");
  const live = useLive<{ events: LogEvent[] }>(`${path}/logs?limit=${LIMIT}${level === "" ? "" : `&level=${level}`}`);
  return (
    <Card title="Logs and output">
      <div class="log-tools">
        <label class="field inline">
          Minimum level
          <select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="">All</option>
            {LEVELS.map((name) => <option key={name} value={name}>{name.toLowerCase()}</option>)}
          </select>
        </label>
        <label class="field inline">
          Filter
          <input type="search" value={sought} onInput={(event) => setSought(event.currentTarget.value)} />
        </label>
      </div>
      <Loaded from={live} what="logs by task">
        {({ events }) => {
          const found = events.filter((event) => `${event.message} ${event.exception ?? ""} ${event.task ?? ""}`.toLowerCase().includes(sought.toLowerCase()));
          return found.length === 0 ? <Empty>{sought !== "" || level !== "" ? "No matching lines." : "No lines have been logged yet."}</Empty> : <Lines events={found} />;
        }}
      </Loaded>
      {job !== undefined && <p class="note">Print sinks write to the .out files of <a href={link("taskmanagers")}>task managers</a>: <code>millstream logs --out {shortId(job)}</code></p>}
    </Card>
  );
}

function Lines({ events }: { events: LogEvent[] }): JSX.Element {
  const frame = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (frame.current !== null && follows.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [events]);
  const scrolled = (): void => {
    const shown = frame.current;
    if (shown !== null) follows.current = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - AT_THE_END;
  };
  return (
    <pre class="log" ref={frame} tabIndex={0} role="region" aria-label="Logs and output" onScroll={scrolled}>
      {events.map((event, number) => (
        <span key={number} class={/ERROR|CRITICAL/.test(event.level) ? "error" : event.level === "WARNING" ? "warning" : ""}>
          <span class="context">{`${time(event.time)} ${event.task ?? event.logger}${event.subtask === null ? "" : ` (${event.subtask})`} `}</span>
          {`${event.message}\n${event.exception === null ? "" : `${event.exception}\n`}`}
        </span>
      ))}
    </pre>
  );
}
