// The cluster at a glance: slots, jobs by state, running jobs and those that ended last.

import type { JSX } from "preact";
import { Card, Loaded, Page, Stat, Stats } from "../components/basics.tsx";
import { plural } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { JobSummary, Overview } from "../types.ts";
import { isEnded, JobTable } from "./jobs.tsx";

export function OverviewPage(): JSX.Element {
  const overview = useLive<Overview>("/overview");
  const jobs = useLive<{ jobs: JobSummary[] }>("/jobs/overview");
  return (
    <Page title="Overview">
      <Loaded from={overview} what="the overview">
        {(data) => (
          <Stats>
            <Stat
              label="Free slots"
              value={`${data["slots-available"]} of ${data["slots-total"]}`}
              note={<a href={link("taskmanagers")}>{plural(data.taskmanagers, "task manager")}</a>}
              tone={data["slots-total"] === 0 ? "bad" : ""}
            />
            <Stat label="Running" value={data["jobs-running"]} note={<a href={link("jobs")}>Running jobs</a>} />
            <Stat label="Finished" value={data["jobs-finished"]} />
            <Stat label="Cancelled" value={data["jobs-cancelled"]} />
            <Stat label="Failed" value={data["jobs-failed"]} tone={data["jobs-failed"] > 0 ? "bad" : ""} />
            <Stat label="Version" value={data["flink-version"]} />
          </Stats>
        )}
      </Loaded>
      <Loaded from={jobs} what="the jobs">
        {({ jobs: all }) => (
          <>
            <Card title="Running jobs" flush aside={<a href={link("jobs")}>All</a>}>
              <JobTable jobs={all.filter((job) => !isEnded(job.state))} empty={NONE_RUNNING} />
            </Card>
            <Card title="Recently ended" flush aside={<a href={link("ended")}>All</a>}>
              <JobTable
                jobs={all.filter((job) => isEnded(job.state)).sort((a, b) => b["end-time"] - a["end-time"]).slice(0, 8)}
                ended
                empty="No jobs have ended yet."
              />
            </Card>
          </>
        )}
      </Loaded>
    </Page>
  );
}

const NONE_RUNNING = (
  <>
    No jobs are running. <code>millstream run -d job.py</code> submits one, or <a href={link("wheels")}>upload a wheel</a>.
  </>
);
