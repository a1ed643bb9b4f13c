// Metrics of a vertex, chosen from all that there are, plotted while the page is open.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Card, Empty, Loaded } from "../components/basics.tsx";
import { Plot } from "../components/plot.tsx";
import { count } from "../format.ts";
import { useLive } from "../live.ts";
import type { MetricValue } from "../types.ts";

const MOST = 6;
const KEPT = 600;
const FIRST = ["numRecordsIn", "numRecordsOut"];

export function MetricsTab({ path }: { path: string }): JSX.Element {
  const all = useLive<MetricValue[]>(`${path}/metrics`);
  const [chosen, setChosen] = useState<string[] | null>(null);
  const [sought, setSought] = useState("");
  return (
    <Loaded from={all} what="metrics">
      {(metrics) => {
        const ids = metrics.map((metric) => metric.id).sort(byName);
        const shown = chosen ?? ids.filter((id) => FIRST.includes(id.split(".").slice(1).join(".")) && id.startsWith("0."));
        const found = ids.filter((id) => id.toLowerCase().includes(sought.toLowerCase()));
        const toggle = (id: string): void => setChosen(shown.includes(id) ? shown.filter((one) => one !== id) : [...shown, id].slice(-MOST));
        return (
          <div class="metrics">
            <Card title="Metrics">
              <label class="search"><span class="hidden">Find a metric</span><input type="search" placeholder="Subtask or name" value={sought} onInput={(event) => setSought(event.currentTarget.value)} /></label>
              <ul class="metric-list" tabIndex={0} aria-label="Metrics to plot">
                {found.slice(0, 300).map((id) => (
                  <li key={id}><label class="check"><input type="checkbox" checked={shown.includes(id)} onChange={() => toggle(id)} /> {id}</label></li>
                ))}
              </ul>
              {found.length > 300 && <p class="note">{found.length - 300} more; type to find them.</p>}
            </Card>
            <Card title="Plot">
              {shown.length === 0 ? <Empty>Choose up to {MOST} metrics.</Empty> : <MetricPlot key={shown.join()} path={path} ids={shown} />}
            </Card>
          </div>
        );
      }}
    </Loaded>
  );
}

function byName(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

function MetricPlot({ path, ids }: { path: string; ids: string[] }): JSX.Element {
  const live = useLive<MetricValue[]>(`${path}/metrics?get=${ids.map(encodeURIComponent).join(",")}`);
  const kept = useRef<{ data: MetricValue[] | undefined; times: number[]; rows: Map<string, number>[] }>({ data: undefined, times: [], rows: [] });
  if (live.data !== undefined && live.data !== kept.current.data) {
    const row = new Map(live.data.map((metric) => [metric.id, Number(metric.value)]));
    kept.current = {
      data: live.data,
      times: [...kept.current.times.slice(1 - KEPT), Date.now()],
      rows: [...kept.current.rows.slice(1 - KEPT), row],
    };
  }
  const { times, rows } = kept.current;
  return (
    <>
      <Plot label="Metrics" times={times} series={ids.map((id) => ({ name: id, values: rows.map((row) => finite(row.get(id))) }))} show={count} />
      <dl class="facts">
        {ids.map((id) => (
          <><dt key={`${id}-name`}>{id}</dt><dd key={id}>{live.data?.find((metric) => metric.id === id)?.value ?? "–"}</dd></>
        ))}
      </dl>
      {live.error !== "" && <p class="note">{live.error}</p>}
    </>
  );
}

function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}
