// Task managers: the list, and one with its slots, memory, metrics, logs, threads, and the flame graphs of its slots.

import { Fragment, type JSX } from "preact";
import { Card, Empty, Loaded, Page, Stat, Stats, Tabs } from "../components/basics.tsx";
import { ThreadDump } from "../components/dump.tsx";
import { FlameGraph } from "../components/flame.tsx";
import { Logs } from "../components/logs.tsx";
import { Table } from "../components/table.tsx";
import { bytes, shortId, time } from "../format.ts";
import { useLive } from "../live.ts";
import { valuesOf } from "../metrics.ts";
import { go, link } from "../router.ts";
import type { JobSummary, MetricValue, TaskManager } from "../types.ts";
import { ProcessMetrics } from "./process.tsx";

export function TaskManagersPage(): JSX.Element {
  const live = useLive<{ taskmanagers: TaskManager[] }>("/taskmanagers");
  return (
    <Page title="Task managers">
      <Card flush>
        <Loaded from={live} what="the task managers">
          {({ taskmanagers }) => (
            <Table
              label="Task managers"
              rows={taskmanagers}
              id={(row) => row.id}
              empty={<>No task managers are registered; jobs wait for slots. <code>millstream cluster start taskmanager</code> adds one.</>}
              sortedBy="Id"
              columns={[
                { name: "Id", by: (row) => row.id, cell: (row) => <a href={link("taskmanagers", row.id)}>{row.id}</a> },
                { name: "Address", by: (row) => row.path, cell: (row) => row.path },
                { name: "Slots", cell: (row) => <Slots row={row} /> },
                { name: "Free", number: true, by: (row) => row.freeSlots, cell: (row) => `${row.freeSlots} of ${row.slotsNumber}` },
                { name: "Processors", number: true, by: (row) => row.hardware.cpuCores, cell: (row) => row.hardware.cpuCores },
                { name: "Memory", number: true, by: (row) => row.hardware.physicalMemory, cell: (row) => bytes(row.hardware.physicalMemory) },
                { name: "Last heartbeat", by: (row) => row.timeSinceLastHeartbeat, cell: (row) => time(row.timeSinceLastHeartbeat) },
              ]}
            />
          )}
        </Loaded>
      </Card>
    </Page>
  );
}

const MOST_SHOWN = 32;

function Slots({ row }: { row: TaskManager }): JSX.Element {
  const used = row.slotsNumber - row.freeSlots;
  return (
    <span class="slots" role="img" aria-label={`${used} of ${row.slotsNumber} slots in use`}>
      {Array.from({ length: Math.min(row.slotsNumber, MOST_SHOWN) }, (_, index) => <span key={index} class={index < used ? "slot used" : "slot"} />)}
    </span>
  );
}

const TABS: [string, string][] = [
  ["slots", "Slots"],
  ["metrics", "Metrics"],
  ["logs", "Logs"],
  ["threads", "Threads"],
  ["flamegraph", "Flame graph"],
];

export function TaskManagerPage({ id, tab, slot }: { id: string; tab: string; slot?: string }): JSX.Element {
  const path = `/taskmanagers/${encodeURIComponent(id)}`;
  const live = useLive<TaskManager>(path);
  return (
    <Page title={id} above={<a href={link("taskmanagers")}>Task managers</a>}>
      <Tabs label="Parts of the task manager" root={["taskmanagers", id]} parts={TABS} current={tab} />
      <Loaded from={live} what="the task manager">
        {(data) => {
          switch (tab) {
            case "metrics":
              return <ProcessMetrics path={`${path}/metrics`} />;
            case "logs":
              return <Logs root={path} />;
            case "threads":
              return <ThreadDump path={`${path}/thread-dump`} />;
            case "flamegraph":
              return <SlotFlames path={path} data={data} chosen={slot ?? ""} />;
            default:
              return <SlotsTab path={path} data={data} />;
          }
        }}
      </Loaded>
    </Page>
  );
}

const USED = "Status.JVM.Memory.Heap.Used";

/** The names of jobs by their ids, as far as they are known. */
function useJobNames(): Map<string, string> {
  const jobs = useLive<{ jobs: JobSummary[] }>("/jobs/overview");
  return new Map(jobs.data?.jobs.map((job) => [job.jid, job.name]));
}

function SlotsTab({ path, data }: { path: string; data: TaskManager }): JSX.Element {
  const names = useJobNames();
  const used = useLive<MetricValue[]>(valuesOf(`${path}/metrics`, [USED])).data?.[0]?.value;
  return (
    <>
      <Stats>
        <Stat label="Slots" value={`${data.freeSlots} of ${data.slotsNumber}`} note="free" />
        <Stat label="Memory" value={used === undefined ? "–" : bytes(Number(used))} note={`in use, of ${bytes(data.hardware.physicalMemory)} of the host`} />
        <Stat label="Processors" value={data.hardware.cpuCores} />
        <Stat label="Address" value={<span class="words">{data.path}</span>} />
        <Stat label="Last heartbeat" value={time(data.timeSinceLastHeartbeat)} />
      </Stats>
      <Card title="Slots in use" flush>
        <Table
          label="Slots in use"
          rows={data.allocatedSlots ?? []}
          id={(row) => row.index}
          empty="No job uses a slot of this task manager."
          columns={[
            { name: "Slot", by: (row) => row.index, cell: (row) => row.index },
            { name: "Job", by: (row) => names.get(row.jobId) ?? row.jobId, cell: (row) => <a href={link("jobs", row.jobId)}>{names.get(row.jobId) ?? shortId(row.jobId)}</a> },
            { name: "Profile", cell: (row) => <a href={link("taskmanagers", data.id, "flamegraph", row.index)} aria-label={`Flame graph of slot ${row.index}`}>Flame graph</a> },
          ]}
        />
      </Card>
      <Memory configuration={data.memoryConfiguration} />
    </>
  );
}

function Memory({ configuration }: { configuration: Record<string, number> }): JSX.Element {
  const parts = Object.entries(configuration).filter(([, size]) => size > 0);
  const words = (name: string): string => name.replace(/([A-Z])/g, " $1").toLowerCase();
  return (
    <Card title="Memory configuration">
      {parts.length === 0 ? <Empty>No limits are set.</Empty> : (
        <dl class="facts">{parts.map(([name, size]) => <Fragment key={name}><dt>{words(name)}</dt><dd>{bytes(size)}</dd></Fragment>)}</dl>
      )}
    </Card>
  );
}

/** The flame graph of a slot's worker: of the chosen slot, or of the first that is in use. */
function SlotFlames({ path, data, chosen }: { path: string; data: TaskManager; chosen: string }): JSX.Element {
  const names = useJobNames();
  const slots = data.allocatedSlots ?? [];
  const slot = slots.find(({ index }) => String(index) === chosen) ?? slots[0];
  return (
    <Card title="Flame graph">
      {slot === undefined ? <Empty>No job uses a slot of this task manager.</Empty> : (
        <>
          <label class="field inline">
            Slot
            <select value={slot.index} onChange={(event) => go("taskmanagers", data.id, "flamegraph", event.currentTarget.value)}>
              {slots.map(({ index, jobId }) => <option key={index} value={index}>{index} · {names.get(jobId) ?? shortId(jobId)}</option>)}
            </select>
          </label>
          <FlameGraph key={slot.index} path={`${path}/slots/${slot.index}`} />
        </>
      )}
    </Card>
  );
}
