// A vertex: its subtasks, and under tabs its metrics, watermarks, backpressure, flame graph and accumulators.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Badge, Card, Loaded, Page, ShareBar, Stat, Stats, Tabs, TimeBar } from "../components/basics.tsx";
import { FlameGraph } from "../components/flame.tsx";
import { TaskLog } from "../components/tasklog.tsx";
import { Table, type Column } from "../components/table.tsx";
import { bytes, count, duration, percent, rate, unbroken, watermark } from "../format.ts";
import { useLive } from "../live.ts";
import { noteJob } from "../places.ts";
import { ratesOf, withSample, type Rates, type Sample } from "../rates.ts";
import { go, link } from "../router.ts";
import type { Job, MetricValue, Subtask, VertexDetails } from "../types.ts";
import { AccumulatorTable } from "./accumulators.tsx";
import { HotKeysCard } from "./hotkeys.tsx";
import { isEnded } from "./jobs.tsx";
import { MetricsTab } from "./metrics.tsx";

const TABS: [string, string][] = [
  ["subtasks", "Subtasks"],
  ["metrics", "Metrics"],
  ["watermarks", "Watermarks"],
  ["backpressure", "Backpressure"],
  ["flamegraph", "Flame graph"],
  ["logs", "Logs"],
  ["accumulators", "Accumulators"],
];

const KEPT = 20; // samples: more than the seconds that rates are of
const UNEVEN = 2;

export function VertexPage({ job: id, vertex, tab, subtask }: { job: string; vertex: string; tab: string; subtask?: string }): JSX.Element {
  const job = useLive<Job>(`/jobs/${id}`);
  const path = `/jobs/${id}/vertices/${vertex}`;
  const state = job.data?.state;
  useEffect(() => {
    if (state !== undefined) noteJob(id, isEnded(state));
  }, [id, state]);
  const live = useLive<VertexDetails>(path);
  const name = live.data?.name ?? job.data?.vertices.find((one) => one.id === vertex)?.name ?? "Vertex";
  const status = job.data?.vertices.find((one) => one.id === vertex)?.status;
  return (
    <Page
      title={<>{unbroken(name)} {status !== undefined && <Badge state={status} />}</>}
      above={<a href={link("jobs", id)}>{job.data?.name ?? "Job"}</a>}
    >
      <Tabs label="Parts of the vertex" root={["jobs", id, "vertices", vertex]} parts={TABS} current={tab} />
      <Loaded from={live} what="the vertex">{(data) => <Tab job={id} jobData={job.data} path={path} tab={tab} subtask={subtask} details={data} />}</Loaded>
    </Page>
  );
}

interface TabProps {
  job: string;
  jobData: Job | undefined;
  path: string;
  tab: string;
  subtask?: string;
  details: VertexDetails;
}

function Tab({ job, jobData, path, tab, subtask, details }: TabProps): ComponentChildren {
  switch (tab) {
    case "metrics":
      return <MetricsTab path={path} job={jobData} vertex={details.name} />;
    case "watermarks":
      return <WatermarksTab path={path} />;
    case "backpressure":
      return <BackpressureTab path={path} />;
    case "flamegraph":
      return <Card title="Flame graph"><FlameGraph path={path} /></Card>;
    case "logs":
      return <SubtaskLogs root={["jobs", job, "vertices", details.id, "logs"]} path={path} subtasks={details.subtasks} chosen={subtask ?? ""} />;
    case "accumulators":
      return <AccumulatorsTab path={path} />;
    default:
      return <SubtasksTab job={job} path={path} details={details} />;
  }
}

function SubtasksTab({ job, path, details }: { job: string; path: string; details: VertexDetails }): JSX.Element {
  const samples = useRef<Sample[]>([]);
  samples.current = withSample(samples.current.slice(-KEPT), {
    at: details.now,
    totals: new Map(details.subtasks.map((subtask) => [String(subtask.subtask), subtask.metrics])),
  });
  const received = sum(details, "read-records");
  const most = Math.max(0, ...details.subtasks.map((subtask) => subtask.metrics["read-records"])) * details.subtasks.length;
  const rows = details.subtasks.map((subtask) => ({
    ...subtask,
    rates: ratesOf(samples.current, String(subtask.subtask)),
    share: received > 0 ? subtask.metrics["read-records"] / received : null,
  }));
  return (
    <>
      <Stats>
        <Stat label="Parallelism" value={details.parallelism} note={`at most ${details.maxParallelism}`} />
        <Stat label="Records in" value={count(received)} note={bytes(sum(details, "read-bytes"))} />
        <Stat label="Records out" value={count(sum(details, "write-records"))} note={bytes(sum(details, "write-bytes"))} />
        <Stat label="Busiest subtask" value={received > 0 ? `${(most / received).toFixed(1)} ×` : "–"} note="the mean records in" tone={received > 0 && most / received > UNEVEN ? "warn" : ""} />
      </Stats>
      <Card title="Subtasks" flush>
        <Table label="Subtasks" rows={rows} id={(row) => row.subtask} empty="No subtasks." columns={columnsOf(job, details.id)} />
      </Card>
      <HotKeysCard path={path} />
    </>
  );
}

function sum(details: VertexDetails, name: keyof Subtask["metrics"]): number {
  return details.subtasks.reduce((total, subtask) => total + subtask.metrics[name], 0);
}

type SubtaskRow = Subtask & { rates: Rates; share: number | null };

function columnsOf(job: string, vertex: string): Column<SubtaskRow>[] {
  return [
    { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
    { name: "Status", by: (row) => row.status, cell: (row) => <Badge state={row.status} /> },
    { name: "Logs", cell: (row) => <a class="short" href={link("jobs", job, "vertices", vertex, "logs", row.subtask)} aria-label={`Logs of subtask ${row.subtask}`}>Logs</a> },
    {
      name: "Busy",
      by: (row) => row.rates.busy ?? -1,
      cell: (row) => (
        <span class="busy-cell" title={`busy ${percent(row.rates.busy)}, backpressured ${percent(row.rates.backpressured)}`}>
          <TimeBar busy={row.rates.busy} backpressured={row.rates.backpressured} /> {percent(row.rates.busy)}
        </span>
      ),
    },
    { name: "Backpressured", number: true, by: (row) => row.rates.backpressured ?? -1, cell: (row) => percent(row.rates.backpressured) },
    { name: "In", number: true, by: (row) => row.rates.recordsIn ?? -1, cell: (row) => rate(row.rates.recordsIn) },
    { name: "Out", number: true, by: (row) => row.rates.recordsOut ?? -1, cell: (row) => rate(row.rates.recordsOut) },
    { name: "Records in", number: true, by: (row) => row.metrics["read-records"], cell: (row) => count(row.metrics["read-records"]) },
    { name: "Share", by: (row) => row.share ?? -1, cell: (row) => (row.share === null ? "–" : <ShareBar share={row.share} />) },
    { name: "Records out", number: true, by: (row) => row.metrics["write-records"], cell: (row) => count(row.metrics["write-records"]) },
    { name: "Duration", number: true, by: (row) => row.duration, cell: (row) => duration(row.duration) },
    {
      name: "Task manager",
      by: (row) => row["taskmanager-id"],
      cell: (row) => (row["taskmanager-id"].startsWith("(") ? row["taskmanager-id"] : <a href={link("taskmanagers", row["taskmanager-id"])}>{row["taskmanager-id"]}</a>),
    },
    { name: "Attempt", number: true, by: (row) => row.attempt, cell: (row) => row.attempt },
  ];
}

/** What all subtasks logged, or the chosen one. */
function SubtaskLogs({ root, path, subtasks, chosen }: { root: string[]; path: string; subtasks: Subtask[]; chosen: string }): JSX.Element {
  return (
    <>
      <label class="field inline">
        Subtask
        <select value={chosen} onChange={({ currentTarget: { value } }) => go(...root, ...(value === "" ? [] : [value]))}>
          <option value="">All</option>
          {subtasks.map(({ subtask }) => <option key={subtask} value={subtask}>{subtask}</option>)}
        </select>
      </label>
      <TaskLog key={chosen} path={chosen === "" ? path : `${path}/subtasks/${chosen}`} />
    </>
  );
}

const MARKS = "currentInputWatermark,currentOutputWatermark,watermarkAlignmentDrift";

interface Mark {
  subtask: number;
  input: number | null;
  output: number | null;
  drift: number | null;
}

function WatermarksTab({ path }: { path: string }): JSX.Element {
  const live = useLive<MetricValue[]>(`${path}/watermarks?get=${MARKS}`);
  return (
    <Card title="Watermarks" flush>
      <Loaded from={live} what="watermarks">
        {(values) => (
          <Table
            label="Watermarks"
            rows={marksOf(values)}
            id={(row) => row.subtask}
            empty="No subtask has a watermark."
            columns={[
              { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
              { name: "Input", by: (row) => row.input ?? -Infinity, cell: (row) => (row.input === null ? "–" : watermark(row.input)) },
              { name: "Output", by: (row) => row.output ?? -Infinity, cell: (row) => (row.output === null ? "–" : watermark(row.output)) },
              { name: "Ahead of alignment group", number: true, by: (row) => row.drift ?? -Infinity, cell: (row) => (row.drift === null ? "–" : duration(row.drift)) },
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
  subtasks: { subtask: number; backpressureLevel: "ok" | "low" | "high"; ratio: number; idleRatio: number; busyRatio: number }[];
}

const LEVELS = { ok: "good", low: "warn", high: "bad" };

function BackpressureTab({ path }: { path: string }): JSX.Element {
  const live = useLive<Backpressure>(`${path}/backpressure`);
  return (
    <Card title="Backpressure" flush>
      <Loaded from={live} what="backpressure by subtask">
        {(data) => (
          <Table
            label="Backpressure"
            rows={data.subtasks}
            id={(row) => row.subtask}
            empty="No subtasks."
            columns={[
              { name: "Subtask", number: true, by: (row) => row.subtask, cell: (row) => row.subtask },
              { name: "Level", by: (row) => row.ratio, cell: (row) => <span class={`badge ${LEVELS[row.backpressureLevel]}`}>{row.backpressureLevel}</span> },
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

function AccumulatorsTab({ path }: { path: string }): JSX.Element {
  const live = useLive<{ "user-accumulators": { name: string; type: string; value: string }[] }>(`${path}/accumulators`);
  return (
    <Card title="Accumulators" flush>
      <Loaded from={live} what="the accumulators">
        {(data) => <AccumulatorTable rows={data["user-accumulators"]} />}
      </Loaded>
    </Card>
  );
}
