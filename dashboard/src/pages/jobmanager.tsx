// The job manager and the other services: configuration, environment, metrics, logs, threads.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Card, Loaded, Page, Tabs } from "../components/basics.tsx";
import { ThreadDump } from "../components/dump.tsx";
import { Logs } from "../components/logs.tsx";
import { plural } from "../format.ts";
import { useLive } from "../live.ts";
import { OptionTable } from "./options.tsx";
import { ProcessMetrics } from "./process.tsx";

const TABS: [string, string][] = [
  ["logs", "Logs"],
  ["configuration", "Configuration"],
  ["metrics", "Metrics"],
  ["threads", "Threads"],
];

interface Service {
  id: string;
  role: string;
  address: string;
  jobs: string[];
}

const ROLES: Record<string, string> = { dispatcher: "Dispatcher", jobmanager: "Job manager", resourcemanager: "Resource manager" };

export function JobManagerPage({ tab }: { tab: string }): JSX.Element {
  return (
    <Page title="Job manager">
      <Tabs label="Parts of the job manager" root={["jobmanager"]} parts={TABS} current={tab} />
      {tab === "logs" && <OfService>{(root) => <Logs key={root} root={root} />}</OfService>}
      {tab === "configuration" && <Configuration />}
      {tab === "metrics" && <ProcessMetrics path="/jobmanager/metrics" />}
      {tab === "threads" && <OfService>{(root) => <ThreadDump key={root} path={`${root}/thread-dump`} />}</OfService>}
    </Page>
  );
}

/** Shows what is beneath the path of the chosen service. */
function OfService({ children }: { children: (root: string) => JSX.Element }): JSX.Element {
  const live = useLive<{ jobmanagers: Service[] }>("/jobmanagers");
  const [chosen, setChosen] = useState("");
  return (
    <Loaded from={live} what="the services">
      {({ jobmanagers }) => {
        const first = jobmanagers.find((service) => service.role === "jobmanager") ?? jobmanagers[0];
        const id = jobmanagers.some((service) => service.id === chosen) ? chosen : (first?.id ?? "");
        return (
          <>
            <label class="field inline">
              Service
              <select value={id} onChange={(event) => setChosen(event.currentTarget.value)}>
                {jobmanagers.map((service) => (
                  <option key={service.id} value={service.id}>
                    {ROLES[service.role] ?? service.role} · {service.address}
                    {service.jobs.length > 0 ? ` · ${plural(service.jobs.length, "job")}` : ""}
                  </option>
                ))}
              </select>
            </label>
            {children(`/jobmanagers/${encodeURIComponent(id)}`)}
          </>
        );
      }}
    </Loaded>
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
