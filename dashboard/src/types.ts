// The REST API's shapes, as far as they are shown: Flink's, with Millstream's additions.

export interface Overview {
  taskmanagers: number;
  "slots-total": number;
  "slots-available": number;
  "jobs-running": number;
  "jobs-finished": number;
  "jobs-cancelled": number;
  "jobs-failed": number;
  "flink-version": string;
}

export interface JobSummary {
  jid: string;
  name: string;
  state: string;
  "start-time": number;
  "end-time": number;
  duration: number;
  "last-modification": number;
  tasks: Record<string, number>;
  message: string;
  restarts: number;
  "last-failure": string | null;
}

export interface JobHealth {
  jid: string;
  health: string;
  reason: string | null;
  rate: number | null;
  rates: (number | null)[];
}

export interface TaskMetrics {
  "read-bytes": number;
  "write-bytes": number;
  "read-records": number;
  "write-records": number;
  "accumulated-backpressured-time": number;
  "accumulated-idle-time": number;
  "accumulated-busy-time": number;
}

export interface Vertex {
  id: string;
  name: string;
  parallelism: number;
  maxParallelism: number;
  status: string;
  "start-time": number;
  duration: number;
  tasks: Record<string, number>;
  metrics: TaskMetrics;
}

export interface PlanNode {
  id: string;
  parallelism: number;
  description: string;
  inputs?: { id: string; ship_strategy: string }[];
}

export interface Job {
  jid: string;
  name: string;
  state: string;
  "job-type": string;
  "start-time": number;
  "end-time": number;
  duration: number;
  now: number;
  timestamps: Record<string, number>;
  vertices: Vertex[];
  plan: { nodes: PlanNode[] };
  message: string;
  restarts: number;
  "last-failure": string | null;
  "slots-required": number;
  "slots-held": number;
}

export interface Flow {
  vertices: { id: string; watermark: number | null; skew: number | null }[];
  /** `input` is the place of the edge among the inputs of its target in the plan. */
  edges: {
    source: string;
    target: string;
    input: number;
    rate: number | null;
    "queued-in": number | null;
    "queued-out": number | null;
    credit: number | null;
  }[];
}

export interface Subtask {
  subtask: number;
  status: string;
  attempt: number;
  endpoint: string;
  duration: number;
  "start-time": number;
  "taskmanager-id": string;
  metrics: TaskMetrics;
}

export interface VertexDetails {
  id: string;
  name: string;
  parallelism: number;
  maxParallelism: number;
  now: number;
  subtasks: Subtask[];
}

export interface Failure {
  exceptionName: string;
  stacktrace: string;
  timestamp: number;
  taskName: string | null;
  endpoint: string | null;
  taskManagerId: string | null;
  operator: string | null;
  subtask: number | null;
  attempt: number | null;
  record: string | null;
  exception: string;
  timesInARow: number | null;
}

export interface RootFailure extends Failure {
  restart: number | null;
  restartDelay: number | null;
  concurrentExceptions: Failure[];
}

export interface Exceptions {
  exceptionHistory: { entries: RootFailure[]; truncated: boolean };
}

export interface CheckpointProgress {
  id: number;
  status: string;
  latest_ack_timestamp: number;
  state_size: number;
  checkpointed_size: number;
  end_to_end_duration: number;
  processed_data: number;
  persisted_data: number;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
}

export interface Checkpoint extends CheckpointProgress {
  is_savepoint: boolean;
  trigger_timestamp: number;
  checkpoint_type: string;
  external_path?: string | null;
  failure_message?: string;
  tasks: Record<string, CheckpointProgress>;
}

export interface Spread {
  min: number;
  max: number;
  avg: number;
  p50: number;
  p99: number;
}

export interface Checkpoints {
  counts: { restored: number; total: number; in_progress: number; completed: number; failed: number };
  summary: { state_size: Spread; checkpointed_size: Spread; end_to_end_duration: Spread };
  latest: {
    completed: Checkpoint | null;
    savepoint: Checkpoint | null;
    failed: Checkpoint | null;
    restored: { id: number; restore_timestamp: number; external_path: string | null } | null;
  };
  history: Checkpoint[];
  savepoints?: Savepoint[];
}

export interface Savepoint {
  id: number;
  external_path: string | null;
  checkpoint_type: string;
  trigger_timestamp: number;
  end_to_end_duration: number;
  state_size: number;
}

export interface CheckpointSubtask {
  index: number;
  status: string;
  ack_timestamp?: number;
  end_to_end_duration?: number;
  state_size?: number;
  checkpointed_size?: number;
  checkpoint?: { sync: number; async: number };
  alignment?: { buffered: number; processed: number; persisted: number; duration: number; waited_for: string | null };
  start_delay?: number;
  unaligned_checkpoint?: boolean;
}

export interface Stall {
  state: string;
  summary: string;
  findings: {
    kind: string;
    message: string;
    advice: string | null;
    "vertex-id": string | null;
    operator: string | null;
    since: number | null;
  }[];
  waiting: { "vertex-id": string; operator: string; kind: string; message: string; open: number }[];
}

export interface TaskManager {
  id: string;
  path: string;
  timeSinceLastHeartbeat: number;
  slotsNumber: number;
  freeSlots: number;
  hardware: { cpuCores: number; physicalMemory: number; freeMemory: number; managedMemory: number };
  memoryConfiguration: Record<string, number>;
  allocatedSlots?: { jobId: string; index: number }[];
}

export interface LogFile {
  name: string;
  size: number;
  mtime: number;
}

export interface Wheel {
  id: string;
  name: string;
  uploaded: number;
  entry: { name: string; description: string | null }[];
}

export interface MetricValue {
  id: string;
  value?: string;
}

export interface FlameNode {
  name: string;
  value: number;
  children: FlameNode[];
}

export interface HotKeys {
  sampled: number;
  "hot-keys": { key: string; share: number; subtask: number }[];
  subtasks: { subtask: number; sampled: number; "hot-key-share": number }[];
}

export interface LogEvent {
  time: number;
  level: string;
  logger: string;
  message: string;
  exception: string | null;
  task: string | null;
  subtask: number | null;
  attempt: number | null;
}
