// Readable names and units of metrics. The REST API has Flink's names. Pure.

import { bytes, count, duration, percent, rate, watermark } from "./format.ts";

export interface ReadableMetric {
  /** What it is measured of: an operator, an edge, a state; empty: the task or the process itself. */
  of: string;
  name: string;
  /** Null: of the whole vertex. */
  subtask: number | null;
}

const NAMES: Record<string, string> = {
  "Status.JVM.CPU.Load": "CPU load",
  "Status.JVM.CPU.Time": "CPU time",
  "Status.JVM.Memory.Heap.Used": "Memory in use",
  "Status.JVM.Threads.Count": "Threads",
  "Status.JVM.GarbageCollector.All.Count": "Garbage collections",
  "Status.JVM.GarbageCollector.All.Time": "Garbage collection time",
  "Status.JVM.GarbageCollector.All.TimeMsPerSecond": "Time in garbage collection",
  "Status.Shuffle.Netty.UsedMemorySegments": "Network buffers in use",
  numRegisteredTaskManagers: "Task managers",
  taskSlotsTotal: "Slots",
  taskSlotsAvailable: "Free slots",
  taskSlotsUsed: "Used slots",
  numPendingTaskSlots: "Slots requested",
  numRunningJobs: "Running jobs",
  busyTimeMsPerSecond: "Busy",
  idleTimeMsPerSecond: "Idle",
  backPressuredTimeMsPerSecond: "Backpressured",
  accumulateBusyTimeMs: "Busy time",
  accumulateIdleTimeMs: "Idle time",
  accumulateBackPressuredTimeMs: "Backpressured time",
  isBackPressured: "Is backpressured",
  currentInputWatermark: "Input watermark",
  currentOutputWatermark: "Output watermark",
  watermarkLag: "Watermark lag",
  checkpointAlignmentTime: "Checkpoint alignment",
  checkpointStartDelayNanos: "Checkpoint start delay",
  numLateRecordsDropped: "Late records dropped",
  hotKeyShare: "Share of the hottest key",
  numKeysSampled: "Keys sampled",
  numStateEntries: "State entries",
  numEntries: "Entries",
  estimatedBytes: "Estimated size",
  lastCheckpointBytes: "Size in the last checkpoint",
  inputQueueLength: "Input queue",
  outputQueueLength: "Output queue",
  inPoolUsage: "Input buffers in use",
  outPoolUsage: "Output buffers in use",
  outputCredit: "Credit",
};

const SPREADS: Record<string, string> = {
  min: "minimum", max: "maximum", mean: "mean", median: "median", stddev: "standard deviation", p75: "75th percentile",
  p90: "90th percentile", p95: "95th percentile", p98: "98th percentile", p99: "99th percentile", p999: "99.9th percentile", count: "samples",
};

/** `vertices`: names by their ids, which edges are named by. */
export function readableMetric(id: string, vertices: ReadonlyMap<string, string> = new Map()): ReadableMetric {
  const numbered = /^(\d+)\.(.+)$/.exec(id);
  const subtask = numbered === null ? null : Number(numbered[1]);
  let path = numbered?.[2] ?? id;
  for (let from = path; ; from = from.slice(from.indexOf(".") + 1)) {
    const whole = NAMES[from]; // a name may have dots of its own
    if (whole !== undefined) return { of: placeOf(path.slice(0, path.length - from.length).split(".").filter(Boolean), vertices), name: whole, subtask };
    if (!from.includes(".")) break;
  }
  const end = /^(.+)_(min|max|mean|median|stddev|p75|p90|p95|p98|p99|p999|count)$/.exec(path);
  if (end !== null) path = end[1] ?? path;
  const parts = path.split(".");
  const last = parts.pop() ?? path;
  const spread = end === null ? "" : `, ${SPREADS[end[2] ?? ""] ?? end[2]}`;
  return { of: placeOf(parts, vertices), name: `${NAMES[last] ?? words(last)}${spread}`, subtask };
}

function placeOf(parts: readonly string[], vertices: ReadonlyMap<string, string>): string {
  const found: string[] = [];
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at] ?? "";
    const next = parts[at + 1];
    if (part === "buffers") continue;
    const named = /^([0-9a-f]{32})(?:-(\d+))?$/.exec(next ?? "");
    if (named !== null) {
      const name = vertices.get(named[1] ?? "") ?? (named[1] ?? "").slice(0, 8);
      const input = named[2] !== undefined && named[2] !== "0" ? ` (input ${Number(named[2]) + 1})` : "";
      found.push(`${EDGES[part] ?? words(part).toLowerCase()} ${name}${input}`);
      at += 1;
    } else if (part === "state" && next !== undefined) {
      found.push(`state ${next}`);
      at += 1;
    } else if ((part === "slot" || /_subtask_index$/.test(part)) && /^\d+$/.test(next ?? "")) {
      found.push(`${part === "slot" ? "slot" : "subtask"} ${next}`);
      at += 1;
    } else {
      found.push(part.replaceAll("__", ": ").replaceAll("_", " "));
    }
  }
  return found.join(" · ");
}

const EDGES: Record<string, string> = { edge: "edge to", source_id: "from", operator_id: "to" };

/** `numRecordsInPerSecond` as "Records in per second"; names that are no camel case, such as a user's, stay as they are. */
function words(name: string): string {
  if (!/^[a-z]+(?:[A-Z][a-z0-9]*)+$/.test(name)) return name;
  const plain = name.replace(/^num(?=[A-Z])/, "").replace(/Nanos$|Ms$/, "").replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return `${plain.slice(0, 1).toUpperCase()}${plain.slice(1)}`;
}

const PARTS = /(?:^|\.)(hotKeyShare|inPoolUsage|outPoolUsage|Status\.JVM\.CPU\.Load)$/;
const NANOS = /(Nanos|checkpointAlignmentTime|CPU\.Time)$/;
const MILLIS = /(TimeMs|\.latency|GarbageCollector\.All\.Time|[a-z]TimeTotal|uptime|downtime|lastCheckpointDuration|watermarkLag|watermarkAlignmentDrift)$/;
const BYTES = /(Bytes|Bytes(In|Out)|Memory\.[A-Za-z.]*Used|lastCheckpoint(Full)?Size|lastCheckpoint(Processed|Persisted)Data)$/;

/** A value with its unit, rounded to significant digits. */
export function metricValue(id: string, text: string | number | null | undefined): string {
  if (text === null || text === undefined) return "–";
  const value = Number(text);
  if (!Number.isFinite(value)) return String(text);
  const path = id.replace(/_(min|max|mean|median|stddev|p75|p90|p95|p98|p99|p999)$/, "");
  if (/current(In|Out)putWatermark$/.test(path)) return watermark(value);
  if (/Timestamp$/.test(path)) return value > 0 ? watermark(value) : "–";
  if (/isBackPressured$/.test(path)) return value > 0 ? "yes" : "no";
  if (/TimeMsPerSecond$/.test(path)) return percent(value / 1000);
  if (/Bytes(In|Out)PerSecond$/.test(path)) return `${bytes(value)}/s`;
  if (/PerSecond$/.test(path)) return rate(value);
  if (PARTS.test(path)) return value > 0 && value < 0.01 ? `${(value * 100).toFixed(1)} %` : percent(value);
  if (NANOS.test(path)) return duration(value / 1e6);
  if (MILLIS.test(path)) return value < 0 ? `−${duration(-value)}` : duration(value);
  if (BYTES.test(path)) return bytes(value);
  return count(value);
}
