// A job: its state, what can be done with it, and its parts under tabs.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Badge, Card, Loaded, Notice, Page, Stat, Stats } from "../components/basics.tsx";
import { JobGraph } from "../components/graph.tsx";
import { Plot } from "../components/plot.tsx";
import { Table } from "../components/table.tsx";
import { bytes, count, duration, percent, plural, rate, shortId, time } from "../format.ts";
import { useLive } from "../live.ts";
import { between, ratesOf, sampleOf, withSample, type Sample } from "../rates.ts";
import { link } from "../router.ts";
import { may } from "../session.ts";
import type { Flow, Job } from "../types.ts";
import { ActionDialogs, type Action } from "./actions.tsx";
import { CheckpointsTab } from "./checkpoints.tsx";
import { ConfigurationTab } from "./configuration.tsx";
import { EventsTab } from "./events.tsx";
import { ExceptionsTab } from "./exceptions.tsx";
import { isEnded } from "./jobs.tsx";
import { StallTab } from "./stall.tsx";
import { AccumulatorsTab } from "./accumulators.tsx";

const TABS: [string, string][] = [
  ["graph", "Graph"],
  ["stall", "Why is nothing coming out?"],
  ["exceptions", "Exceptions"],
  ["checkpoints", "Checkpoints"],
  ["accumulators", "Accumulators"],
  ["events", "Events"],
  ["configuration", "Configuration"],
];

const remembered = new Map<string, Sample[]>();

/** The totals of the job as its answers came in, while somebody looked. */
export function useSamples(job: Job | undefined): readonly Sample[] {
  if (job === undefined) return [];
  const samples = withSample(remembered.get(job.jid) ?? [], sampleOf(job));
  remembered.delete(job.jid);
  remembered.set(job.jid, samples);
  for (const old of remembered.keys()) if (remembered.size > 5) remembered.delete(old);
  return samples;
}

export function JobPage({ id, tab, rest }: { id: string; tab: string; rest: string[] }): JSX.Element {
  const live = useLive<Job>(`/jobs/${id}`);
  const [action, setAction] = useState<Action | null>(null);
  const job = live.data;
  useEffect(() => {
    if (job !== undefined) document.title = `${job.name} · Millstream`;
  }, [job?.name]);
  const operable = job !== undefined && may("operate") && !isEnded(job.state);
  return (
    <Page
      title={job === undefined ? `Job ${shortId(id)}` : <>{job.name} <Badge state={job.state} /></>}
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
            {data.message !== "" && (
              <Notice tone={data.state === "FAILED" ? "bad" : "warn"}>
                {data.message} {data["last-failure"] !== null && <a href={link("jobs", id, "exceptions")}>Exceptions</a>}
              </Notice>
            )}
            {data.message === "" && data["last-failure"] !== null && data.state !== "FINISHED" && (
              <Notice tone={data.state === "RUNNING" ? "warn" : "bad"}>
                {data.restarts > 0 ? `Restarted ${plural(data.restarts, "time")}, the last time for: ` : "Failed: "}
                <code>{data["last-failure"]}</code> <a href={link("jobs", id, "exceptions")}>Exceptions</a>
              </Notice>
            )}
            <nav class="tabs" aria-label="Parts of the job">
              {TABS.map(([path, name]) => (
                <a key={path} href={link("jobs", id, path)} aria-current={path === tab ? "page" : undefined}>{name}</a>
              ))}
            </nav>
            <Tab job={data} tab={tab} rest={rest} />
            {action !== null && <ActionDialogs job={data} action={action} onClose={() => setAction(null)} />}
          </>
        )}
      </Loaded>
    </Page>
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
    case "accumulators":
      return <AccumulatorsTab job={job} />;
    default:
      return <GraphTab job={job} />;
  }
}

function GraphTab({ job }: { job: Job }): JSX.Element {
  const samples = useSamples(job);
  const flow = useLive<Flow>(`/jobs/${job.jid}/flow`);
  const inputs = new Map(job.plan.nodes.map((node) => [node.id, node.inputs ?? []]));
  const sources = job.vertices.filter((vertex) => inputs.get(vertex.id)?.length === 0);
  const total = (ids: string[], of: (id: string) => number | null): number => ids.reduce((sum, id) => sum + (of(id) ?? 0), 0);
  const read = total(sources.map((source) => source.id), (id) => ratesOf(samples, id).recordsOut);
  return (
    <>
      <Stats>
        <Stat label="Started" value={time(job["start-time"])} note={`${duration(job.duration)} ${isEnded(job.state) ? "in all" : "so far"}`} />
        <Stat label="Vertices" value={job.vertices.length} note={plural(job.vertices.reduce((sum, vertex) => sum + vertex.parallelism, 0), "subtask")} />
        <Stat label="Slots" value={`${job["slots-held"]} of ${job["slots-required"]}`} note="held of required" tone={!isEnded(job.state) && job["slots-held"] < job["slots-required"] ? "warn" : ""} />
        <Stat label="Out of sources" value={samples.length > 1 ? rate(read) : "–"} note={`${count(sources.reduce((sum, source) => sum + source.metrics["write-records"], 0))} records so far`} />
        <Stat label="Restarts" value={job.restarts} tone={job.restarts > 0 ? "warn" : ""} />
      </Stats>
      <Card title="Graph" flush>
        <JobGraph job={job} samples={samples} flow={flow.data} />
      </Card>
      {samples.length > 4 && sources.length <= 6 && !isEnded(job.state) && (
        <Card title="Records a second out of sources">
          <Plot
            label="Records a second out of sources"
            times={samples.slice(1).map((sample) => sample.at)}
            series={sources.map((source) => ({
              name: source.name,
              values: samples.slice(1).map((sample, number) => between(samples[Math.max(0, number - 3)] ?? sample, sample, source.id).recordsOut),
            }))}
            show={(value) => count(Math.round(value * 10) / 10)}
          />
        </Card>
      )}
      <Card title="Vertices" flush>
        <Table
          label="Vertices"
          rows={job.vertices}
          id={(vertex) => vertex.id}
          empty="The job has no vertices."
          columns={[
            { name: "Vertex", by: (vertex) => vertex.name, cell: (vertex) => <a href={link("jobs", job.jid, "vertices", vertex.id)}>{vertex.name}</a> },
            { name: "Status", by: (vertex) => vertex.status, cell: (vertex) => <Badge state={vertex.status} /> },
            { name: "Parallelism", number: true, by: (vertex) => vertex.parallelism, cell: (vertex) => vertex.parallelism },
            { name: "Busy", number: true, by: (vertex) => ratesOf(samples, vertex.id).busy ?? -1, cell: (vertex) => percent(ratesOf(samples, vertex.id).busy) },
            { name: "Backpressured", number: true, by: (vertex) => ratesOf(samples, vertex.id).backpressured ?? -1, cell: (vertex) => percent(ratesOf(samples, vertex.id).backpressured) },
            { name: "Records in", number: true, by: (vertex) => vertex.metrics["read-records"], cell: (vertex) => count(vertex.metrics["read-records"]) },
            { name: "Records out", number: true, by: (vertex) => vertex.metrics["write-records"], cell: (vertex) => count(vertex.metrics["write-records"]) },
            { name: "Bytes in", number: true, by: (vertex) => vertex.metrics["read-bytes"], cell: (vertex) => bytes(vertex.metrics["read-bytes"]) },
            { name: "Bytes out", number: true, by: (vertex) => vertex.metrics["write-bytes"], cell: (vertex) => bytes(vertex.metrics["write-bytes"]) },
          ]}
        />
      </Card>
    </>
  );
}
