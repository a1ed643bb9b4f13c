// The threads of a process and their stacks, on request.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, get } from "../api.ts";
import { Card, Empty, Unavailable } from "./basics.tsx";

interface Dump {
  threadInfos: { threadName: string; stringifiedThreadInfo: string }[];
}

export function ThreadDump({ path }: { path: string }): JSX.Element {
  const [dump, setDump] = useState<Dump | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [loading, setLoading] = useState(false);
  const load = (): void => {
    setLoading(true);
    get<Dump>(path)
      .then((found) => {
        setDump(found);
        setError(null);
      })
      .catch((caught: unknown) => setError(ApiError.of(caught)))
      .finally(() => setLoading(false));
  };
  return (
    <Card title="Threads" aside={<button type="button" onClick={load} disabled={loading}>{loading ? "Collecting …" : "Dump threads"}</button>}>
      {error !== null && <Unavailable status={error.status} error={error.message} />}
      {dump === null && error === null && <Empty>A thread dump shows the current stack of each thread. It does not pause the process.</Empty>}
      {dump?.threadInfos.map((thread, number) => (
        <details key={`${thread.threadName}-${number}`} open={number === 0}>
          <summary>{thread.threadName}</summary>
          <pre class="traceback" tabIndex={0} role="region" aria-label={thread.threadName}>{thread.stringifiedThreadInfo}</pre>
        </details>
      ))}
    </Card>
  );
}
