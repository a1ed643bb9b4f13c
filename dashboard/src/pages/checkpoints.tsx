// A job's checkpoints and savepoints: counts, sizes, the history, and the details of each by subtask.

import type { JSX } from "preact";
import { Badge, Card, Copy, Empty, Loaded, Notice, Stat, Stats } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { bytes, duration, time, unbroken } from "../format.ts";
import { useLive } from "../live.ts";
import { link, stateLink } from "../router.ts";
import type { Checkpoint, Checkpoints, CheckpointProgress, CheckpointSubtask, Job, Savepoint } from "../types.ts";

export function CheckpointsTab({ job, checkpoint, vertex }: { job: Job; checkpoint?: string; vertex?: string }): JSX.Element {
  if (checkpoint !== undefined) return <CheckpointDetails job={job} id={checkpoint} vertex={vertex} />;
  return <History job={job} />;
}

interface Config {
  mode: string;
  interval: number;
  timeout: number;
  min_pause: number;
  state_backend: string;
  checkpoint_storage: string;
  unaligned_checkpoints: boolean;
  tolerable_failed_checkpoints: number;
}

const NEVER = 2 ** 62;

function History({ job }: { job: Job }): JSX.Element {
  const live = useLive<Checkpoints>(`/jobs/${job.jid}/checkpoints`);
  const config = useLive<Config>(`/jobs/${job.jid}/checkpoints/config`);
  return (
    <Loaded from={live} what="the checkpoints">
      {(data) => (
        <>
          <Stats>
            <Stat label="Completed" value={data.counts.completed} note={`of ${data.counts.total}`} />
            <Stat label="Failed" value={data.counts.failed} tone={data.counts.failed > 0 ? "warn" : ""} />
            <Stat label="In progress" value={data.counts.in_progress} />
            <Stat label="Restored" value={data.counts.restored} note={data.latest.restored === null ? undefined : `from ${data.latest.restored.id}, ${time(data.latest.restored.restore_timestamp)}`} />
            <Stat label="Duration" value={data.counts.completed > 0 ? duration(data.summary.end_to_end_duration.p50) : "–"} note={data.counts.completed > 0 ? `median; 99th percentile ${duration(data.summary.end_to_end_duration.p99)}` : undefined} />
            <Stat label="State" value={data.latest.completed === null ? "–" : bytes(data.latest.completed.state_size)} note="latest checkpoint" />
          </Stats>
          {data.latest.failed?.failure_message && <Notice tone="warn">Checkpoint {data.latest.failed.id} failed: {data.latest.failed.failure_message}</Notice>}
          <Card title="History" flush>
            <Table
              label="Checkpoints"
              rows={data.history}
              id={(row) => row.id}
              empty="No checkpoint has been taken yet. Checkpoints are taken when execution.checkpointing.interval is set, or on request."
              columns={[
                { name: "Id", number: true, by: (row) => row.id, cell: (row) => <a href={link("jobs", job.jid, "checkpoints", row.id)}>{row.id}</a> },
                { name: "Status", by: (row) => row.status, cell: (row) => <Badge state={row.status} /> },
                { name: "Kind", by: (row) => kind(row), cell: (row) => kind(row) },
                { name: "Triggered", by: (row) => row.trigger_timestamp, cell: (row) => time(row.trigger_timestamp) },
                { name: "Acknowledged", cell: (row) => <Progress row={row} /> },
                { name: "Duration", number: true, by: (row) => row.end_to_end_duration, cell: (row) => duration(row.end_to_end_duration) },
                { name: "Written", number: true, by: (row) => row.checkpointed_size, cell: (row) => bytes(row.checkpointed_size) },
                { name: "State", number: true, by: (row) => row.state_size, cell: (row) => bytes(row.state_size) },
              ]}
            />
          </Card>
          <Savepoints taken={data.savepoints ?? []} />
          <Card title="Settings">
            <Loaded from={config} what="the settings">
              {(how) => (
                <dl class="facts">
                  <dt>Mode</dt><dd>{how.mode.replaceAll("_", " ")}{how.unaligned_checkpoints ? ", unaligned" : ""}</dd>
                  <dt>Interval</dt><dd>{how.interval >= NEVER || how.interval <= 0 ? "only on request" : duration(how.interval)}</dd>
                  <dt>Timeout</dt><dd>{duration(how.timeout)}</dd>
                  <dt>Minimum pause</dt><dd>{duration(how.min_pause)}</dd>
                  <dt>State backend</dt><dd>{how.state_backend}</dd>
                  <dt>Storage</dt><dd>{how.checkpoint_storage}</dd>
                  <dt>Tolerable failures</dt><dd>{how.tolerable_failed_checkpoints} in a row</dd>
                </dl>
              )}
            </Loaded>
          </Card>
        </>
      )}
    </Loaded>
  );
}

function Savepoints({ taken }: { taken: Savepoint[] }): JSX.Element {
  return (
    <Card title="Savepoints" flush>
      <Table
        label="Savepoints"
        rows={taken}
        id={(row) => row.id}
        empty="No savepoint has been taken. To take one, choose Savepoint at the top of the page."
        columns={[
          { name: "Path", cell: (row) => (row.external_path === null ? "–" : <code>{row.external_path}</code>) },
          { name: "Taken", by: (row) => row.trigger_timestamp, cell: (row) => time(row.trigger_timestamp) },
          { name: "Duration", number: true, by: (row) => row.end_to_end_duration, cell: (row) => duration(row.end_to_end_duration) },
          { name: "Size", number: true, by: (row) => row.state_size, cell: (row) => bytes(row.state_size) },
          {
            name: "Actions",
            cell: ({ external_path: path }) => (path === null ? "–" : <span class="row-actions"><Copy text={path} what="path" /><a href={stateLink(path)}>Browse the state</a></span>),
          },
        ]}
      />
    </Card>
  );
}

function kind(row: Checkpoint): string {
  return row.is_savepoint ? "savepoint" : row.checkpoint_type.replaceAll("_", " ").toLowerCase();
}

function Progress({ row }: { row: CheckpointProgress | Checkpoint }): JSX.Element {
  return (
    <span class="progress">
      <progress max={Math.max(1, row.num_subtasks)} value={row.num_acknowledged_subtasks} aria-label="Acknowledged subtasks" />
      {row.num_acknowledged_subtasks} of {row.num_subtasks}
    </span>
  );
}

function CheckpointDetails({ job, id, vertex }: { job: Job; id: string; vertex?: string }): JSX.Element {
  const live = useLive<Checkpoint>(`/jobs/${job.jid}/checkpoints/details/${id}`);
  const names = new Map(job.vertices.map((one) => [one.id, one.name]));
  return (
    <>
      <p><a href={link("jobs", job.jid, "checkpoints")}>← All checkpoints</a></p>
      <Loaded from={live} what={`checkpoint ${id}`}>
        {(data) => (
          <>
            <Stats>
              <Stat label={data.is_savepoint ? "Savepoint" : "Checkpoint"} value={data.id} note={<Badge state={data.status} />} />
              <Stat label="Triggered" value={time(data.trigger_timestamp)} />
              <Stat label="Duration" value={duration(data.end_to_end_duration)} />
              <Stat label="State" value={bytes(data.state_size)} note={`${bytes(data.checkpointed_size)} written`} />
              <Stat label="In-flight data" value={bytes(data.persisted_data)} note="persisted" />
            </Stats>
            {data.failure_message && <Notice tone="bad">{data.failure_message}</Notice>}
            {data.external_path && (
              <p>
                In <code>{data.external_path}</code> · <a href={stateLink(data.external_path)}>Browse the state</a>
              </p>
            )}
            <Card title="Vertices" flush>
              <Table
                label="Vertices of the checkpoint"
                rows={Object.entries(data.tasks)}
                id={([key]) => key}
                empty="No vertex has acknowledged the checkpoint yet."
                columns={[
                  { name: "Vertex", by: ([key]) => names.get(key) ?? key, cell: ([key]) => <a href={link("jobs", job.jid, "checkpoints", id, key)} aria-current={key === vertex ? "true" : undefined}>{unbroken(names.get(key) ?? key)}</a> },
                  { name: "Acknowledged", cell: ([, row]) => <Progress row={row} /> },
                  { name: "Last acknowledged", by: ([, row]) => row.latest_ack_timestamp, cell: ([, row]) => time(row.latest_ack_timestamp) },
                  { name: "Duration", number: true, by: ([, row]) => row.end_to_end_duration, cell: ([, row]) => duration(row.end_to_end_duration) },
                  { name: "Written", number: true, by: ([, row]) => row.checkpointed_size, cell: ([, row]) => bytes(row.checkpointed_size) },
                  { name: "State", number: true, by: ([, row]) => row.state_size, cell: ([, row]) => bytes(row.state_size) },
                ]}
              />
            </Card>
            {vertex === undefined ? <Empty>Select a vertex to see its subtasks.</Empty> : <Subtasks job={job} id={id} vertex={vertex} name={names.get(vertex) ?? vertex} />}
          </>
        )}
      </Loaded>
    </>
  );
}

function Subtasks({ job, id, vertex, name }: { job: Job; id: string; vertex: string; name: string }): JSX.Element {
  const live = useLive<{ subtasks: CheckpointSubtask[] }>(`/jobs/${job.jid}/checkpoints/details/${id}/subtasks/${vertex}`);
  const figure = (value: number | undefined, show: (value: number) => string): string => (value === undefined ? "–" : show(value));
  return (
    <Card title={`Subtasks of ${name}`} flush>
      <Loaded from={live} what="the subtasks">
        {({ subtasks }) => (
          <>
            <Waited subtasks={subtasks} />
            <Table
              label="Subtasks"
              rows={subtasks}
              id={(row) => row.index}
              empty="No subtask has acknowledged the checkpoint yet."
              columns={[
                { name: "Subtask", number: true, by: (row) => row.index, cell: (row) => row.index },
                { name: "Status", by: (row) => row.status, cell: (row) => <Badge state={row.status.toUpperCase()} /> },
                { name: "Duration", number: true, by: (row) => row.end_to_end_duration ?? -1, cell: (row) => figure(row.end_to_end_duration, duration) },
                { name: "Start delay", number: true, by: (row) => row.start_delay ?? -1, cell: (row) => figure(row.start_delay, duration) },
                { name: "Alignment", number: true, by: (row) => row.alignment?.duration ?? -1, cell: (row) => figure(row.alignment?.duration, duration) },
                { name: "Waited for", by: (row) => row.alignment?.waited_for ?? "", cell: (row) => row.alignment?.waited_for ?? "–" },
                { name: "Capture", number: true, by: (row) => row.checkpoint?.sync ?? -1, cell: (row) => figure(row.checkpoint?.sync, duration) },
                { name: "Write", number: true, by: (row) => row.checkpoint?.async ?? -1, cell: (row) => figure(row.checkpoint?.async, duration) },
                { name: "In-flight data", number: true, by: (row) => row.alignment?.persisted ?? -1, cell: (row) => figure(row.alignment?.persisted, bytes) },
                { name: "State", number: true, by: (row) => row.state_size ?? -1, cell: (row) => figure(row.state_size, bytes) },
              ]}
            />
          </>
        )}
      </Loaded>
    </Card>
  );
}

/** What the slowest subtask spent the largest part of its time on. */
function Waited({ subtasks }: { subtasks: CheckpointSubtask[] }): JSX.Element | null {
  const slowest = subtasks.filter((row) => row.end_to_end_duration !== undefined).sort((a, b) => (b.end_to_end_duration ?? 0) - (a.end_to_end_duration ?? 0))[0];
  if (slowest === undefined) return null;
  const parts: [number, string][] = [
    [slowest.start_delay ?? 0, "waiting for the first barrier: records before it in the channels, or a slow task upstream"],
    [slowest.alignment?.duration ?? 0, `aligning: waiting for the barrier of ${slowest.alignment?.waited_for ?? "another input"}`],
    [slowest.checkpoint?.sync ?? 0, "capturing its state, while it processed no records"],
    [slowest.checkpoint?.async ?? 0, "writing its state, while it continued to process records"],
  ];
  const [longest, what] = parts.sort(([a], [b]) => b - a)[0] ?? [0, ""];
  if (longest === 0) return null;
  return <p class="card-note">The slowest subtask is {slowest.index}: {duration(slowest.end_to_end_duration ?? 0)}, of which it spent {duration(longest)} {what}.</p>;
}
