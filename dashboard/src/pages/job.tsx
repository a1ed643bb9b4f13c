// A job: its state, its actions, and its parts under tabs.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Badge, Loaded, Notice, Page, Tabs } from "../components/basics.tsx";
import { TaskLog } from "../components/tasklog.tsx";
import { plural, sentence, shortId } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import { noteJob } from "../places.ts";
import { may } from "../session.ts";
import type { Job, JobHealth } from "../types.ts";
import { AccumulatorsTab } from "./accumulators.tsx";
import { ActionDialogs, type Action } from "./actions.tsx";
import { CheckpointsTab } from "./checkpoints.tsx";
import { ConfigurationTab } from "./configuration.tsx";
import { EventsTab } from "./events.tsx";
import { ExceptionsTab } from "./exceptions.tsx";
import { GraphTab } from "./jobgraph.tsx";
import { conditionOf, isEnded } from "./jobs.tsx";
import { StallTab } from "./stall.tsx";

const TABS: [string, string][] = [
  ["graph", "Graph"],
  ["stall", "Why is nothing coming out?"],
  ["exceptions", "Exceptions"],
  ["checkpoints", "Checkpoints"],
  ["logs", "Logs"],
  ["accumulators", "Accumulators"],
  ["events", "Events"],
  ["configuration", "Configuration"],
];

export function JobPage({ id, tab, rest }: { id: string; tab: string; rest: string[] }): JSX.Element {
  const live = useLive<Job>(`/jobs/${id}`);
  const [action, setAction] = useState<Action | null>(null);
  const job = live.data;
  const health = useLive<{ jobs: JobHealth[] }>(job?.state === "RUNNING" ? "/jobs/health" : null).data?.jobs.find((one) => one.jid === id);
  useEffect(() => {
    if (job !== undefined) document.title = `${job.name} · Millstream`;
  }, [job?.name]);
  useEffect(() => {
    if (job !== undefined) noteJob(id, isEnded(job.state));
  }, [id, job?.state]);
  const operable = job !== undefined && may("operate") && !isEnded(job.state);
  return (
    <Page
      title={job === undefined ? `Job ${shortId(id)}` : <>{job.name} <Badge state={conditionOf(job.state, health)} /></>}
      above={<a href={link(job !== undefined && isEnded(job.state) ? "ended" : "jobs")}>{job !== undefined && isEnded(job.state) ? "Ended jobs" : "Running jobs"}</a>}
      actions={
        operable && (
          <>
            <button type="button" onClick={() => setAction("savepoint")}>Savepoint</button>
            <button type="button" onClick={() => setAction("rescale")}>Rescale</button>
            <button type="button" onClick={() => setAction("stop")}>Stop</button>
            <button type="button" class="danger" onClick={() => setAction("cancel")}>Cancel</button>
          </>
        )
      }
    >
      <Loaded from={live} what="the job">
        {(data) => (
          <>
            <Condition job={data} />
            <Tabs label="Parts of the job" root={["jobs", id]} parts={TABS} current={tab} />
            <Tab job={data} tab={tab} rest={rest} />
            {action !== null && <ActionDialogs job={data} action={action} onClose={() => setAction(null)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** What the job waits for, or its last failure, unless it has finished. */
function Condition({ job }: { job: Job }): JSX.Element | null {
  const failure = job["last-failure"];
  if (job.message === "" && (failure === null || job.state === "FINISHED")) return null;
  const restarted = job.restarts > 0 ? `Restarted ${plural(job.restarts, "time")}. Last failure: ` : "Failed: ";
  return (
    <Notice tone={job.state === "FAILED" ? "bad" : "warn"}>
      {job.message !== "" ? sentence(job.message) : <>{restarted}<code>{failure}</code></>}
      {failure !== null && <> <a href={link("jobs", job.jid, "exceptions")}>Exceptions</a></>}
    </Notice>
  );
}

function Tab({ job, tab, rest }: { job: Job; tab: string; rest: string[] }): ComponentChildren {
  switch (tab) {
    case "exceptions":
      return <ExceptionsTab job={job} />;
    case "checkpoints":
      return <CheckpointsTab job={job} checkpoint={rest[0]} vertex={rest[1]} />;
    case "configuration":
      return <ConfigurationTab job={job} />;
    case "stall":
      return <StallTab job={job} />;
    case "events":
      return <EventsTab job={job} />;
    case "logs":
      return <TaskLog path={`/jobs/${job.jid}`} job={job.jid} />;
    case "accumulators":
      return <AccumulatorsTab job={job} />;
    default:
      return <GraphTab job={job} />;
  }
}
