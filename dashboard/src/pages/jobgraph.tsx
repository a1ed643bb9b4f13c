// The graph of a job with live figures, the plot of its source rate, and its vertices in a table.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Badge, Card, Stat, Stats } from "../components/basics.tsx";
import { JobGraph, type GraphEdge } from "../components/graph.tsx";
import type { GraphVertex } from "../components/graphnode.tsx";
import { HistoryPlot } from "../components/history.tsx";
import { Table } from "../components/table.tsx";
import { bytes, count, duration, percent, plural, rate, time, unbroken } from "../format.ts";
import { edgeKey } from "../layout.ts";
import { useLive } from "../live.ts";
import { edgeRates, ratesOf, sampleOf, sourceRate, UNKNOWN, withSample, type Rates, type Sample } from "../rates.ts";
import { link } from "../router.ts";
import type { Flow, Job, Vertex } from "../types.ts";
import { isEnded } from "./jobs.tsx";

const remembered = new Map<string, Sample[]>();
const JOBS_REMEMBERED = 5;
const MOST_PLOTTED = 6;

/** The totals of the job since its page was opened. */
function samplesOf(job: Job): readonly Sample[] {
  const samples = withSample(remembered.get(job.jid) ?? [], sampleOf(job));
  remembered.delete(job.jid);
  remembered.set(job.jid, samples);
  for (const old of remembered.keys()) if (remembered.size > JOBS_REMEMBERED) remembered.delete(old);
  return samples;
}

export function GraphTab({ job }: { job: Job }): JSX.Element {
  const flow = useLive<Flow>(`/jobs/${job.jid}/flow`).data;
  const samples = useMemo(() => samplesOf(job), [job]);
  const rates = useMemo(() => new Map(job.vertices.map(({ id }) => [id, ratesOf(samples, id)])), [samples]);
  const vertices = useMemo(() => shownVertices(job, rates, flow), [job, rates, flow]);
  const edges = useMemo(() => shownEdges(job, rates, flow), [rates, flow]);
  const fed = new Set(job.plan.nodes.filter((node) => node.inputs !== undefined).map((node) => node.id));
  const sources = job.vertices.filter((vertex) => !fed.has(vertex.id));
  const ended = isEnded(job.state);
  return (
    <>
      <Stats>
        <Stat label="Started" value={time(job["start-time"])} note={`${duration(job.duration)} ${ended ? "in all" : "so far"}`} />
        <Stat label="Vertices" value={job.vertices.length} note={plural(job.vertices.reduce((sum, vertex) => sum + vertex.parallelism, 0), "subtask")} />
        <Stat label="Slots" value={`${job["slots-held"]} of ${job["slots-required"]}`} note="held of required" tone={!ended && job["slots-held"] < job["slots-required"] ? "warn" : ""} />
        <Stat label="Source rate" value={rate(sourceRate(sources, rates))} note={`${count(sources.reduce((sum, source) => sum + source.metrics["read-records"], 0))} records ${ended ? "in all" : "so far"}`} />
        <Stat label="Restarts" value={job.restarts} tone={job.restarts > 0 ? "warn" : ""} />
      </Stats>
      <Card title="Graph" flush>
        <JobGraph nodes={job.plan.nodes} vertices={vertices} edges={edges} />
      </Card>
      {sources.length <= MOST_PLOTTED && <SourcePlot job={job} sources={sources} />}
      <Card title="Vertices" flush>
        <Table
          label="Vertices"
          rows={job.vertices}
          id={(vertex) => vertex.id}
          empty="The job has no vertices."
          columns={[
            { name: "Vertex", by: (vertex) => vertex.name, cell: (vertex) => <a href={link("jobs", job.jid, "vertices", vertex.id)}>{unbroken(vertex.name)}</a> },
            { name: "Status", by: (vertex) => vertex.status, cell: (vertex) => <Badge state={vertex.status} /> },
            { name: "Parallelism", number: true, by: (vertex) => vertex.parallelism, cell: (vertex) => vertex.parallelism },
            { name: "Busy", number: true, by: (vertex) => rates.get(vertex.id)?.busy ?? -1, cell: (vertex) => percent(rates.get(vertex.id)?.busy ?? null) },
            { name: "Backpressured", number: true, by: (vertex) => rates.get(vertex.id)?.backpressured ?? -1, cell: (vertex) => percent(rates.get(vertex.id)?.backpressured ?? null) },
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

function shownVertices(job: Job, rates: ReadonlyMap<string, Rates>, flow: Flow | undefined): Map<string, GraphVertex> {
  const flows = new Map(flow?.vertices.map((vertex) => [vertex.id, vertex]));
  return new Map(
    job.vertices.map(({ id, name, parallelism, status, metrics }) => {
      const { watermark = null, skew = null } = flows.get(id) ?? {};
      const href = link("jobs", job.jid, "vertices", id);
      const totals = isEnded(status) ? { in: metrics["read-records"], out: metrics["write-records"] } : null;
      return [id, { name, parallelism, status, href, rates: rates.get(id) ?? UNKNOWN, watermark, now: job.now, skew, totals }];
    }),
  );
}

function shownEdges(job: Job, rates: ReadonlyMap<string, Rates>, flow: Flow | undefined): Map<string, GraphEdge> {
  const flows = new Map(flow?.edges.map((edge) => [edgeKey(edge.target, edge.input), edge]));
  const counted = edgeRates(job.plan.nodes, rates, new Map([...flows].map(([key, edge]) => [key, edge.rate])));
  const edge = (source: string, key: string): GraphEdge => {
    const known = flows.get(key);
    const queued = [known?.["queued-out"], known?.["queued-in"]].filter((length) => length != null);
    const waiting = queued.length === 0 ? null : queued.reduce((sum, length) => sum + length, 0);
    const backpressured = (rates.get(source)?.backpressured ?? 0) > 0.5 && waiting !== 0;
    return { rate: counted.get(key) ?? null, waiting, credit: known?.credit ?? null, backpressured };
  };
  return new Map(
    job.plan.nodes.flatMap(({ id, inputs = [] }) =>
      inputs.map((from, input) => [edgeKey(id, input), edge(from.id, edgeKey(id, input))] as const),
    ),
  );
}

interface VertexSeries {
  vertex: string;
  figure: string;
  values: (number | null)[];
}

function SourcePlot({ job, sources }: { job: Job; sources: Vertex[] }): JSX.Element {
  const names = new Map(sources.map((source) => [source.id, source.name]));
  return (
    <HistoryPlot<VertexSeries>
      title="Source rate, records per second"
      path={`/jobs/${job.jid}/history?figures=records-in`}
      name={({ vertex }) => names.get(vertex) ?? vertex}
      show={(value) => count(Math.round(value * 10) / 10)}
      started={job["start-time"]}
      fills
    />
  );
}
