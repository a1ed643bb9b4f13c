// The threads of a process and what each is doing, asked for on request.

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
  const [asking, setAsking] = useState(false);
  const ask = (): void => {
    setAsking(true);
    get<Dump>(path)
      .then((found) => {
        setDump(found);
        setError(null);
      })
      .catch((caught: unknown) => setError(ApiError.of(caught)))
      .finally(() => setAsking(false));
  };
  return (
    <Card title="Threads" aside={<button type="button" onClick={ask} disabled={asking}>{asking ? "Collecting …" : "Dump threads"}</button>}>
      {error !== null && <Unavailable status={error.status} error={error.message} />}
      {dump === null && error === null && <Empty>A dump shows what each thread is doing at that moment. It does not pause the process.</Empty>}
      {dump?.threadInfos.map((thread, number) => (
        <details key={`${thread.threadName}-${number}`} open={number === 0}>
          <summary>{thread.threadName}</summary>
          <pre class="traceback" tabIndex={0} role="region" aria-label={thread.threadName}>{thread.stringifiedThreadInfo}</pre>
        </details>
      ))}
    </Card>
  );
}
