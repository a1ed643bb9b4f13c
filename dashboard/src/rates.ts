// Current rates of a job, from the totals in the responses of the last seconds. Pure.

import { edgeKey } from "./layout.ts";
import type { Job, PlanNode, TaskMetrics } from "./types.ts";

export interface Sample {
  at: number;
  totals: Map<string, TaskMetrics>;
}

export interface Rates {
  recordsIn: number | null;
  recordsOut: number | null;
  bytesIn: number | null;
  bytesOut: number | null;
  busy: number | null;
  backpressured: number | null;
  idle: number | null;
}

export const UNKNOWN: Rates = {
  recordsIn: null,
  recordsOut: null,
  bytesIn: null,
  bytesOut: null,
  busy: null,
  backpressured: null,
  idle: null,
};

const WINDOW_MS = 5000;
const MOST = 600;
const MOST_FIGURES = 30_000; // of all vertices: of a wide job, fewer samples are kept

export function sampleOf(job: Pick<Job, "now" | "vertices">): Sample {
  return { at: job.now, totals: new Map(job.vertices.map((vertex) => [vertex.id, vertex.metrics])) };
}

/** The samples with one more: only as many as a plot shows. */
export function withSample(samples: readonly Sample[], sample: Sample): Sample[] {
  const last = samples.at(-1);
  if (last !== undefined && last.at >= sample.at) return samples as Sample[];
  const most = Math.max(30, Math.min(MOST, Math.floor(MOST_FIGURES / Math.max(1, sample.totals.size))));
  return [...samples.slice(1 - most), sample];
}

/**
 * The rates of a vertex between the newest sample and the first one within the window before it, or the one before. The
 * sample that the page opened with is left out: its totals are up to a second old, and rates against it up to twice too high.
 */
export function ratesOf(samples: readonly Sample[], id: string): Rates {
  const last = samples.at(-1);
  let first = samples.at(-2);
  if (last === undefined || first === undefined || samples.length < 3) return UNKNOWN;
  for (let at = samples.length - 3; at >= 1; at -= 1) {
    const earlier = samples[at];
    if (earlier === undefined || earlier.at < last.at - WINDOW_MS) break;
    first = earlier;
  }
  return between(first, last, id);
}

export function between(first: Sample, last: Sample, id: string): Rates {
  const [before, after] = [first.totals.get(id), last.totals.get(id)];
  const seconds = (last.at - first.at) / 1000;
  if (before === undefined || after === undefined || seconds <= 0) return UNKNOWN;
  const more = (name: keyof TaskMetrics): number => Math.max(0, after[name] - before[name]); // after a restart, totals begin at 0
  const busy = more("accumulated-busy-time");
  const backpressured = more("accumulated-backpressured-time");
  const idle = more("accumulated-idle-time");
  const all = busy + backpressured + idle;
  if (all + more("read-records") + more("write-records") === 0) return UNKNOWN; // nothing was reported in between
  return {
    recordsIn: more("read-records") / seconds,
    recordsOut: more("write-records") / seconds,
    bytesIn: more("read-bytes") / seconds,
    bytesOut: more("write-bytes") / seconds,
    busy: all > 0 ? busy / all : null,
    backpressured: all > 0 ? backpressured / all : null,
    idle: all > 0 ? idle / all : null,
  };
}

/** Records per second that the sources emit, together; null while no source has a rate. A source counts what it emits as read. */
export function sourceRate(sources: readonly { id: string }[], rates: ReadonlyMap<string, Rates>): number | null {
  const known = sources.map(({ id }) => rates.get(id)?.recordsIn ?? null).filter((one) => one !== null);
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

/**
 * The rates of edges, by `edgeKey`. The totals of a vertex give the rate of its only input or output. The others are as
 * measured, unless their source has not reported since: that rate would be an old one.
 */
export function edgeRates(nodes: readonly PlanNode[], rates: ReadonlyMap<string, Rates>, measured: ReadonlyMap<string, number | null>): Map<string, number> {
  const leaving = new Map<string, number>();
  for (const node of nodes) for (const { id } of node.inputs ?? []) leaving.set(id, (leaving.get(id) ?? 0) + 1);
  const found = new Map<string, number>();
  for (const { id: target, inputs = [] } of nodes) {
    inputs.forEach(({ id: source }, input) => {
      const known = inputs.length === 1 ? rates.get(target)?.recordsIn : leaving.get(source) === 1 ? rates.get(source)?.recordsOut : null;
      const key = edgeKey(target, input);
      const rate = known ?? (rates.get(source)?.recordsOut == null ? null : measured.get(key));
      if (rate != null) found.set(key, rate);
    });
  }
  return found;
}
