// The options of a job.

import type { JSX } from "preact";
import { Card, Loaded, Stat, Stats } from "../components/basics.tsx";
import { useLive } from "../live.ts";
import type { Job } from "../types.ts";
import { OptionTable } from "./options.tsx";

interface JobConfig {
  "execution-config": {
    "restart-strategy": string;
    "job-parallelism": number;
    "object-reuse-mode": boolean;
    "user-config": Record<string, string>;
  };
}

export function ConfigurationTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<JobConfig>(`/jobs/${job.jid}/config`);
  return (
    <Loaded from={live} what="the configuration">
      {({ "execution-config": config }) => (
        <>
          <Stats>
            <Stat label="Mode" value={job["job-type"].toLowerCase()} />
            <Stat label="Parallelism" value={config["job-parallelism"]} />
            <Stat label="Restart strategy" value={<span class="words">{config["restart-strategy"] || "none"}</span>} />
            <Stat label="Object reuse" value={config["object-reuse-mode"] ? "yes" : "no"} />
          </Stats>
          <Card title="Options" flush>
            <OptionTable rows={Object.entries(config["user-config"]).map(([key, value]) => ({ key, value }))} />
          </Card>
        </>
      )}
    </Loaded>
  );
}
