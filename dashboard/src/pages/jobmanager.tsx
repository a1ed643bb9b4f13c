// The job manager and the other services: configuration, environment, metrics, logs, threads.

import type { JSX } from "preact";
import { Card, Loaded, Page } from "../components/basics.tsx";
import { ThreadDump } from "../components/dump.tsx";
import { Logs } from "../components/logs.tsx";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import { OptionTable } from "./options.tsx";
import { ProcessMetrics } from "./process.tsx";

const TABS: [string, string][] = [
  ["logs", "Logs"],
  ["configuration", "Configuration"],
  ["metrics", "Metrics"],
  ["threads", "Threads"],
];

export function JobManagerPage({ tab }: { tab: string }): JSX.Element {
  return (
    <Page title="Job manager">
      <nav class="tabs" aria-label="Parts of the job manager">
        {TABS.map(([path, name]) => (
          <a key={path} href={link("jobmanager", path)} aria-current={path === tab ? "page" : undefined}>{name}</a>
        ))}
      </nav>
      {tab === "logs" && <Logs root="/jobmanager" />}
      {tab === "configuration" && <Configuration />}
      {tab === "metrics" && <ProcessMetrics path="/jobmanager/metrics" />}
      {tab === "threads" && <ThreadDump path="/jobmanager/thread-dump" />}
    </Page>
  );
}

interface Environment {
  jvm: { version: string; arch: string; options: string[] };
  classpath: string[];
}

function Configuration(): JSX.Element {
  const options = useLive<{ key: string; value: string }[]>("/jobmanager/config");
  const environment = useLive<Environment>("/jobmanager/environment");
  return (
    <>
      <Card title="Options" flush>
        <Loaded from={options} what="the configuration of its services">{(rows) => <OptionTable rows={rows} />}</Loaded>
      </Card>
      <Card title="Environment">
        <Loaded from={environment} what="the environment of its services">
          {(data) => (
            <>
              <dl class="facts">
                <dt>Version</dt><dd>{data.jvm.version}</dd>
                <dt>Machine</dt><dd>{data.jvm.arch}</dd>
                {data.jvm.options.length > 0 && <><dt>Options</dt><dd>{data.jvm.options.join(" ")}</dd></>}
              </dl>
              <details>
                <summary>Path of modules</summary>
                <ul class="plain">{data.classpath.map((entry) => <li key={entry}><code>{entry}</code></li>)}</ul>
              </details>
            </>
          )}
        </Loaded>
      </Card>
    </>
  );
}
