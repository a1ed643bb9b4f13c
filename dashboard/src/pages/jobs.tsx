// Lists of jobs: those that run, and those that have ended.

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Badge, Card, Loaded, Page, Search } from "../components/basics.tsx";
import { Table, type Column } from "../components/table.tsx";
import { duration, shortId, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { JobSummary } from "../types.ts";

const ENDED = ["FINISHED", "CANCELED", "FAILED"];

export function isEnded(state: string): boolean {
  return ENDED.includes(state);
}

export function JobsPage({ ended }: { ended: boolean }): JSX.Element {
  const jobs = useLive<{ jobs: JobSummary[] }>("/jobs/overview");
  const [sought, setSought] = useState("");
  const wanted = sought.trim().toLowerCase();
  return (
    <Page title={ended ? "Ended jobs" : "Running jobs"}>
      <Loaded from={jobs} what="the jobs">
        {({ jobs: all }) => {
          const kind = all.filter((job) => isEnded(job.state) === ended);
          const found = kind.filter((job) => `${job.name} ${job.jid} ${job.state}`.toLowerCase().includes(wanted));
          return (
            <>
              <Search label="Name, id or state" value={sought} onInput={setSought} />
              <Card flush>
                <JobTable jobs={found} ended={ended} empty={kind.length > 0 ? "No job matches." : ended ? "No job has ended yet." : "No job is running."} />
              </Card>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

export function JobTable({ jobs, ended = false, empty }: { jobs: JobSummary[]; ended?: boolean; empty: ComponentChildren }): JSX.Element {
  const columns = useMemo(() => columnsOf(ended), [ended]);
  return (
    <Table
      label={ended ? "Ended jobs" : "Running jobs"}
      columns={columns}
      rows={jobs}
      id={(job) => job.jid}
      empty={empty}
      sortedBy={ended ? "Ended" : "Started"}
      descending
    />
  );
}

function columnsOf(ended: boolean): Column<JobSummary>[] {
  return [
    {
      name: "Job",
      by: (job) => job.name.toLowerCase(),
      cell: (job) => (
        <>
          <a href={link("jobs", job.jid)}>{job.name}</a> <span class="id">{shortId(job.jid)}</span>
          {(job.message || (job["last-failure"] && job.state !== "FINISHED")) && (
            <span class="row-note">{job.message || job["last-failure"]}</span>
          )}
        </>
      ),
    },
    { name: "State", by: (job) => job.state, cell: (job) => <Badge state={job.state} /> },
    { name: "Started", by: (job) => job["start-time"], cell: (job) => time(job["start-time"]) },
    ended
      ? { name: "Ended", by: (job) => job["end-time"], cell: (job) => time(job["end-time"]) }
      : { name: "Restarts", by: (job) => job.restarts, number: true, cell: (job) => job.restarts },
    { name: "Duration", by: (job) => job.duration, number: true, cell: (job) => duration(job.duration) },
    { name: "Tasks", cell: (job) => <Tasks counts={job.tasks} /> },
  ];
}

const SHOWN = ["running", "finished", "initializing", "deploying", "scheduled", "created", "canceling", "canceled", "failed"];

function Tasks({ counts }: { counts: Record<string, number> }): JSX.Element {
  return (
    <span class="tasks">
      {SHOWN.filter((state) => (counts[state] ?? 0) > 0).map((state) => (
        <span key={state} class={`task-count ${state}`}>
          {counts[state]} {state}
        </span>
      ))}
    </span>
  );
}
