// Task managers: the list, and one with its slots, memory, logs and threads.

import type { JSX } from "preact";
import { Card, Empty, Loaded, Page, Stat, Stats } from "../components/basics.tsx";
import { ThreadDump } from "../components/dump.tsx";
import { Logs } from "../components/logs.tsx";
import { Table } from "../components/table.tsx";
import { bytes, duration, shortId, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { TaskManager } from "../types.ts";
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
              empty={<>No task manager is registered: jobs wait for slots. <code>millstream cluster start taskmanager</code> adds one.</>}
              sortedBy="Id"
              columns={[
                { name: "Id", by: (row) => row.id, cell: (row) => <a href={link("taskmanagers", row.id)}>{row.id}</a> },
                { name: "Address", by: (row) => row.path, cell: (row) => row.path },
                { name: "Slots", cell: (row) => <Slots row={row} /> },
                { name: "Free", number: true, by: (row) => row.freeSlots, cell: (row) => `${row.freeSlots} of ${row.slotsNumber}` },
                { name: "Processors", number: true, by: (row) => row.hardware.cpuCores, cell: (row) => row.hardware.cpuCores },
                { name: "Memory", number: true, by: (row) => row.hardware.physicalMemory, cell: (row) => bytes(row.hardware.physicalMemory) },
                { name: "Heard of", by: (row) => row.timeSinceLastHeartbeat, cell: (row) => time(row.timeSinceLastHeartbeat) },
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

export function TaskManagerPage({ id }: { id: string }): JSX.Element {
  const path = `/taskmanagers/${encodeURIComponent(id)}`;
  const live = useLive<TaskManager>(path);
  return (
    <Page title={id} above={<a href={link("taskmanagers")}>Task managers</a>}>
      <Loaded from={live} what="the task manager">
        {(data) => (
          <>
            <Stats>
              <Stat label="Slots" value={`${data.freeSlots} of ${data.slotsNumber}`} note="free" />
              <Stat label="Processors" value={data.hardware.cpuCores} />
              <Stat label="Memory" value={bytes(data.hardware.physicalMemory)} note="of the host" />
              <Stat label="Address" value={<span class="words">{data.path}</span>} />
              <Stat label="Last heard of" value={duration(Math.max(0, Date.now() - data.timeSinceLastHeartbeat))} note="ago" />
            </Stats>
            <Card title="Slots in use" flush>
              <Table
                label="Slots in use"
                rows={data.allocatedSlots ?? []}
                id={(row) => row.index}
                empty="No job uses a slot of this task manager."
                columns={[
                  { name: "Slot", number: true, by: (row) => row.index, cell: (row) => row.index },
                  { name: "Job", by: (row) => row.jobId, cell: (row) => <a href={link("jobs", row.jobId)}>{shortId(row.jobId)}</a> },
                ]}
              />
            </Card>
            <Memory configuration={data.memoryConfiguration} />
            <ProcessMetrics path={`${path}/metrics`} />
            <Logs root={path} />
            <ThreadDump path={`${path}/thread-dump`} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Memory({ configuration }: { configuration: Record<string, number> }): JSX.Element {
  const parts = Object.entries(configuration).filter(([, size]) => size > 0);
  const words = (name: string): string => name.replace(/([A-Z])/g, " $1").toLowerCase();
  return (
    <Card title="Memory">
      {parts.length === 0 ? <Empty>It is not limited by parts.</Empty> : (
        <dl class="facts">{parts.map(([name, size]) => <><dt key={`${name}-name`}>{words(name)}</dt><dd key={name}>{bytes(size)}</dd></>)}</dl>
      )}
    </Card>
  );
}
