// The lists of running and of ended jobs.

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Badge, Card, Loaded, Page, Search } from "../components/basics.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Sparkline } from "../components/sparkline.tsx";
import { duration, rate, sentence, shortId, stateName, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { JobHealth, JobSummary } from "../types.ts";

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
                <JobTable jobs={found} ended={ended} empty={kind.length > 0 ? "No matching jobs." : ended ? "No jobs have ended yet." : "No jobs are running."} />
              </Card>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

type Row = JobSummary & { health: JobHealth | undefined };

export function JobTable({ jobs, ended = false, empty }: { jobs: JobSummary[]; ended?: boolean; empty: ComponentChildren }): JSX.Element {
  const health = useLive<{ jobs: JobHealth[] }>(ended ? null : "/jobs/health").data;
  const columns = useMemo(() => columnsOf(ended), [ended]);
  const rows = useMemo(() => {
    const known = new Map(health?.jobs.map((job) => [job.jid, job]));
    return jobs.map((job): Row => ({ ...job, health: known.get(job.jid) }));
  }, [jobs, health]);
  return (
    <Table
      label={ended ? "Ended jobs" : "Running jobs"}
      columns={columns}
      rows={rows}
      id={(job) => job.jid}
      empty={empty}
      sortedBy={ended ? "Ended" : "Started"}
      descending
    />
  );
}

/** What the job waits for, the reason of its health, or its last failure. */
function noteOf(job: Row): string {
  if (job.message !== "") return sentence(job.message);
  if (job.state === "RUNNING" && job.health?.reason) return job.health.reason;
  return job.state === "FINISHED" || job.state === "RUNNING" ? "" : (job["last-failure"] ?? "");
}

/** The health of a running job, the state of any other: the state is the more recent of the two. */
export function conditionOf(state: string, health: JobHealth | undefined): string {
  return state === "RUNNING" ? (health?.health ?? state) : state;
}

function columnsOf(ended: boolean): Column<Row>[] {
  return [
    {
      name: "Job",
      by: (job) => job.name.toLowerCase(),
      cell: (job) => (
        <>
          <a href={link("jobs", job.jid)}>{job.name}</a> <span class="id">{shortId(job.jid)}</span>
          {noteOf(job) !== "" && <span class="row-note" title={noteOf(job)}>{noteOf(job)}</span>}
        </>
      ),
    },
    ended
      ? { name: "State", by: (job) => job.state, cell: (job) => <Badge state={job.state} /> }
      : { name: "Health", by: (job) => conditionOf(job.state, job.health), cell: (job) => <Badge state={conditionOf(job.state, job.health)} /> },
    ...(ended ? [] : [RATE]),
    { name: "Started", by: (job) => job["start-time"], cell: (job) => time(job["start-time"]) },
    ended
      ? { name: "Ended", by: (job) => job["end-time"], cell: (job) => time(job["end-time"]) }
      : { name: "Restarts", by: (job) => job.restarts, number: true, cell: (job) => job.restarts },
    { name: "Duration", by: (job) => job.duration, number: true, cell: (job) => duration(job.duration) },
    { name: "Tasks", cell: (job) => <Tasks counts={job.tasks} /> },
  ];
}

const RATE: Column<Row> = {
  name: "Source rate",
  by: (job) => job.health?.rate ?? -1,
  cell: ({ health }) => (
    <span class="spark-cell">
      <Sparkline values={health?.rates ?? []} />
      <span class="spark-rate">{rate(health?.rate ?? null)}</span>
    </span>
  ),
};

const SHOWN = ["running", "finished", "initializing", "deploying", "scheduled", "created", "canceling", "canceled", "failed"];

function Tasks({ counts }: { counts: Record<string, number> }): JSX.Element {
  return (
    <span class="tasks">
      {SHOWN.filter((state) => (counts[state] ?? 0) > 0).map((state) => (
        <span key={state} class={`task-count ${state}`}>
          {counts[state]} {stateName(state)}
        </span>
      ))}
    </span>
  );
}
