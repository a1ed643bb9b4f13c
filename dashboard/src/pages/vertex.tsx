// A vertex: its subtasks, and under tabs its metrics, watermarks, backpressure, flame graph and accumulators.

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Badge, Card, Empty, Loaded, Page, Stat, Stats, TimeBar } from "../components/basics.tsx";
import { Flame } from "../components/flame.tsx";
import { Table, type Column } from "../components/table.tsx";
import { bytes, count, duration, percent, rate, watermark } from "../format.ts";
import { useLive } from "../live.ts";
import { ratesOf, withSample, type Rates, type Sample } from "../rates.ts";
import { link } from "../router.ts";
import type { FlameNode, Job, MetricValue, Subtask, VertexDetails } from "../types.ts";
import { AccumulatorTable } from "./accumulators.tsx";
import { MetricsTab } from "./metrics.tsx";

const TABS: [string, string][] = [
  ["subtasks", "Subtasks"],
  ["metrics", "Metrics"],
  ["watermarks", "Watermarks"],
  ["backpressure", "Backpressure"],
  ["flamegraph", "Flame graph"],
  ["accumulators", "Accumulators"],
];

export function VertexPage({ job: id, vertex, tab }: { job: string; vertex: string; tab: string }): JSX.Element {
  const job = useLive<Job>(`/jobs/${id}`);
  const path = `/jobs/${id}/vertices/${vertex}`;
  const live = useLive<VertexDetails>(path);
  const name = live.data?.name ?? job.data?.vertices.find((one) => one.id === vertex)?.name ?? "Vertex";
  const status = job.data?.vertices.find((one) => one.id === vertex)?.status;
  return (
    <Page
      title={<>{name} {status !== undefined && <Badge state={status} />}</>}
      above={<><a href={link("jobs", id)}>{job.data?.name ?? "Job"}</a></>}
    >
      <nav class="tabs" aria-label="Parts of the vertex">
        {TABS.map(([part, words]) => (
          <a key={part} href={link("jobs", id, "vertices", vertex, part)} aria-current={part === tab ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      <Loaded from={live} what="the vertex">{(data) => <Tab path={path} tab={tab} details={data} />}</Loaded>
    </Page>
  );
}

function Tab({ path, tab, details }: { path: string; tab: string; details: VertexDetails }): ComponentChildren {
  switch (tab) {
    case "metrics":
      return <MetricsTab path={path} />;
    case "watermarks":
      return <WatermarksTab path={path} />;
    case "backpressure":
      return <BackpressureTab path={path} />;
    case "flamegraph":
      return <FlameTab path={path} />;
    case "accumulators":
      return <AccumulatorsTab path={path} />;
    default:
      return <SubtasksTab details={details} />;
  }
}

function SubtasksTab({ details }: { details: VertexDetails }): JSX.Element {
  const samples = useRef<Sample[]>([]);
  samples.current = withSample(samples.current.slice(-20), {
    at: details.now,
    totals: new Map(details.subtasks.map((subtask) => [String(subtask.subtask), subtask.metrics])),
  });
  const rates = new Map(details.subtasks.map((subtask) => [subtask.subtask, ratesOf(samples.current, String(subtask.subtask))]));
  const received = details.subtasks.map((subtask) => subtask.metrics["read-records"]);
  const most = Math.max(0, ...received);
  const mean = received.reduce((sum, value) => sum + value, 0) / Math.max(1, received.length);
  const columns = useMemo(() => columnsOf((subtask) => rates.get(subtask.subtask)), [details]);
  return (
    <>
      <Stats>
        <Stat label="Parallelism" value={details.parallelism} note={`at most ${details.maxParallelism}`} />
        <Stat label="Records in" value={count(sum(details, "read-records"))} note={bytes(sum(details, "read-bytes"))} />
        <Stat label="Records out" value={count(sum(details, "write-records"))} note={bytes(sum(details, "write-bytes"))} />
        <Stat label="Fullest subtask" value={mean > 0 ? `${(most / mean).toFixed(1)} ×` : "–"} note="the mean of records in" tone={mean > 0 && most / mean > 2 ? "warn" : ""} />
      </Stats>
      <Card title="Subtasks" flush>
        <Table label="Subtasks" rows={details.subtasks} id={(subtask) => subtask.subtask} empty="There are no subtasks." columns={columns} />
      </Card>
    </>
  );
}

function sum(details: VertexDetails, name: keyof Subtask["metrics"]): number {
  return details.subtasks.reduce((total, subtask) => total + subtask.metrics[name], 0);
}

function columnsOf(rates: (subtask: Subtask) => Rates | undefined): Column<Subtask>[] {
  return [
    { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
    { name: "Status", by: (row) => row.status, cell: (row) => <Badge state={row.status} /> },
    { name: "Time", by: (row) => rates(row)?.busy ?? -1, cell: (row) => <TimeBar busy={rates(row)?.busy ?? null} backpressured={rates(row)?.backpressured ?? null} /> },
    { name: "Busy", number: true, by: (row) => rates(row)?.busy ?? -1, cell: (row) => percent(rates(row)?.busy ?? null) },
    { name: "Backpressured", number: true, by: (row) => rates(row)?.backpressured ?? -1, cell: (row) => percent(rates(row)?.backpressured ?? null) },
    { name: "In", number: true, by: (row) => rates(row)?.recordsIn ?? -1, cell: (row) => rate(rates(row)?.recordsIn ?? null) },
    { name: "Out", number: true, by: (row) => rates(row)?.recordsOut ?? -1, cell: (row) => rate(rates(row)?.recordsOut ?? null) },
    { name: "Records in", number: true, by: (row) => row.metrics["read-records"], cell: (row) => count(row.metrics["read-records"]) },
    { name: "Records out", number: true, by: (row) => row.metrics["write-records"], cell: (row) => count(row.metrics["write-records"]) },
    { name: "Attempt", number: true, by: (row) => row.attempt, cell: (row) => row.attempt },
    { name: "Duration", number: true, by: (row) => row.duration, cell: (row) => duration(row.duration) },
    {
      name: "Task manager",
      by: (row) => row["taskmanager-id"],
      cell: (row) => (row["taskmanager-id"].startsWith("(") ? row["taskmanager-id"] : <a href={link("taskmanagers", row["taskmanager-id"])}>{row.endpoint}</a>),
    },
  ];
}

interface Mark {
  subtask: number;
  input: number | null;
  output: number | null;
  drift: number | null;
}

function WatermarksTab({ path }: { path: string }): JSX.Element {
  const live = useLive<MetricValue[]>(`${path}/watermarks`);
  return (
    <Card title="Watermarks" flush>
      <Loaded from={live} what="watermarks">
        {(values) => (
          <Table
            label="Watermarks"
            rows={marksOf(values)}
            id={(row) => row.subtask}
            empty="No subtask has a watermark: event time does not go on here."
            columns={[
              { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
              { name: "Input", by: (row) => row.input ?? -Infinity, cell: (row) => (row.input === null ? "–" : watermark(row.input)) },
              { name: "Output", by: (row) => row.output ?? -Infinity, cell: (row) => (row.output === null ? "–" : watermark(row.output)) },
              { name: "Ahead of its group", number: true, by: (row) => row.drift ?? -Infinity, cell: (row) => (row.drift === null ? "–" : duration(row.drift)) },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

function marksOf(values: MetricValue[]): Mark[] {
  const marks = new Map<number, Mark>();
  for (const { id, value } of values) {
    const [subtask = "0", name] = id.split(".");
    const mark = marks.get(Number(subtask)) ?? { subtask: Number(subtask), input: null, output: null, drift: null };
    if (name === "currentInputWatermark") mark.input = Number(value);
    if (name === "currentOutputWatermark") mark.output = Number(value);
    if (name === "watermarkAlignmentDrift") mark.drift = Number(value);
    marks.set(mark.subtask, mark);
  }
  return [...marks.values()];
}

interface Backpressure {
  status: string;
  backpressureLevel?: string;
  subtasks?: { subtask: number; backpressureLevel?: string; "backpressure-level"?: string; ratio: number; idleRatio: number; busyRatio: number }[];
}

function BackpressureTab({ path }: { path: string }): JSX.Element {
  const live = useLive<Backpressure>(`${path}/backpressure`);
  const level = (row: { backpressureLevel?: string; "backpressure-level"?: string }): string => row.backpressureLevel ?? row["backpressure-level"] ?? "ok";
  return (
    <Card title="Backpressure" flush>
      <Loaded from={live} what="backpressure by subtask">
        {(data) => (
          <Table
            label="Backpressure"
            rows={data.subtasks ?? []}
            id={(row) => row.subtask}
            empty="It is not known yet."
            columns={[
              { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
              { name: "Level", by: level, cell: (row) => <span class={`badge ${level(row) === "ok" ? "good" : level(row) === "low" ? "warn" : "bad"}`}>{level(row)}</span> },
              { name: "Time", cell: (row) => <TimeBar busy={row.busyRatio} backpressured={row.ratio} /> },
              { name: "Backpressured", number: true, by: (row) => row.ratio, cell: (row) => percent(row.ratio) },
              { name: "Busy", number: true, by: (row) => row.busyRatio, cell: (row) => percent(row.busyRatio) },
              { name: "Idle", number: true, by: (row) => row.idleRatio, cell: (row) => percent(row.idleRatio) },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

const KINDS: [string, string][] = [
  ["on_cpu", "On the processor"],
  ["off_cpu", "Waiting"],
  ["full", "Both"],
];

function FlameTab({ path }: { path: string }): JSX.Element {
  const [kind, setKind] = useState("on_cpu");
  const live = useLive<{ data: FlameNode | null; endTimestamp: number }>(`${path}/flamegraph?type=${kind}`);
  return (
    <Card title="Flame graph">
      <fieldset class="choice">
        <legend class="hidden">What is sampled</legend>
        {KINDS.map(([value, words]) => (
          <label key={value}><input type="radio" name="flame-kind" checked={kind === value} onChange={() => setKind(value)} /> {words}</label>
        ))}
      </fieldset>
      <Loaded from={live} what="flame graphs">
        {({ data }) => (data === null || data === undefined || data.value === 0 ? <Empty>Sampling the stacks of its workers …</Empty> : <Flame root={data} />)}
      </Loaded>
    </Card>
  );
}

function AccumulatorsTab({ path }: { path: string }): JSX.Element {
  const live = useLive<{ "user-accumulators": { name: string; type: string; value: string }[] }>(`${path}/accumulators`);
  return (
    <Card title="Accumulators" flush>
      <Loaded from={live} what="the accumulators of a vertex; the job's page has those of all">
        {(data) => <AccumulatorTable rows={data["user-accumulators"]} />}
      </Loaded>
    </Card>
  );
}
