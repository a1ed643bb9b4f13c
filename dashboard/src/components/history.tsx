// History that the dispatcher has recorded, as a plot: complete when the page opens, and after a reload.

import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { time } from "../format.ts";
import { useLive } from "../live.ts";
import { Card } from "./basics.tsx";
import { Plot, type Series } from "./plot.tsx";

export interface Recorded<S> {
  /** False if the dispatcher had no room for the history of the job. */
  recorded: boolean;
  since: number;
  now: number;
  times: number[];
  series: S[];
}

const SPANS: [number, string][] = [
  [5 * 60_000, "5 min"],
  [15 * 60_000, "15 min"],
  [60 * 60_000, "1 h"],
];
const LEAST_MS = 60_000;
const span = signal(SPANS[1]?.[0] ?? LEAST_MS);

/** `series` makes lines of what the path returns. */
export function HistoryPlot<S extends { values: (number | null)[] }>({
  title,
  path,
  name,
  show,
  started,
  fills = false,
}: {
  title: string;
  path: string;
  name: (series: S) => string;
  show: (value: number) => string;
  /** When the job started. */
  started: number;
  fills?: boolean;
}): JSX.Element {
  const { data, error } = useLive<Recorded<S>>(path);
  const from = (data?.now ?? 0) - span.value;
  const times = data?.times ?? [];
  const first = Math.max(0, times.findIndex((at) => at >= from));
  const shown = times.slice(first);
  const lines: Series[] = (data?.series ?? []).map((one) => ({ name: name(one), values: times.map((_, at) => one.values[at] ?? null).slice(first) }));
  const earliest = shown[0] ?? 0;
  return (
    <Card
      title={title}
      aside={
        <div class="segments" role="group" aria-label="Time span">
          {SPANS.map(([ms, words]) => (
            <button key={ms} type="button" aria-pressed={span.value === ms} onClick={() => (span.value = ms)}>{words}</button>
          ))}
        </div>
      }
    >
      <Plot
        label={title}
        times={shown}
        series={lines}
        show={show}
        fills={fills}
        span={Math.min(span.value, Math.max(LEAST_MS, (data?.now ?? 0) - earliest))}
        empty={data === undefined ? (error === "" ? "Loading the history …" : error) : data.recorded ? "No values have been recorded." : "No history has been recorded for this job."}
      />
      {data !== undefined && data.recorded && data.since > from && data.since > started && (
        <p class="note">The history begins at {time(data.since)}, when this dispatcher became the leader.</p>
      )}
    </Card>
  );
}
