// Metrics of a vertex, chosen from all that there are, plotted while the page is open.

import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card, Empty, Loaded, Search } from "../components/basics.tsx";
import { Plot } from "../components/plot.tsx";
import { byName, count } from "../format.ts";
import { useLive } from "../live.ts";
import { valuesOf } from "../metrics.ts";
import type { MetricValue } from "../types.ts";

const MOST = 6;
const LISTED = 300;
const KEPT = 600;
const EVERY_MS = 1000;
const FIRST = ["0.numRecordsInPerSecond", "0.numRecordsOutPerSecond"];

export function MetricsTab({ path }: { path: string }): JSX.Element {
  const all = useLive<MetricValue[]>(`${path}/metrics`);
  const [chosen, setChosen] = useState<string[] | null>(null);
  const [sought, setSought] = useState("");
  return (
    <Loaded from={all} what="metrics">
      {(metrics) => {
        const ids = metrics.map((metric) => metric.id).sort(byName);
        const shown = chosen ?? ids.filter((id) => FIRST.includes(id));
        const found = ids.filter((id) => id.toLowerCase().includes(sought.toLowerCase()));
        const toggle = (id: string): void => setChosen(shown.includes(id) ? shown.filter((one) => one !== id) : [...shown, id].slice(-MOST));
        return (
          <div class="metrics">
            <Card title="Metrics">
              <Search label="Subtask or name" value={sought} onInput={setSought} />
              <ul class="metric-list" tabIndex={0} aria-label="Metrics to plot">
                {found.slice(0, LISTED).map((id) => (
                  <li key={id}><label class="check"><input type="checkbox" checked={shown.includes(id)} onChange={() => toggle(id)} /> {id}</label></li>
                ))}
              </ul>
              {found.length > LISTED && <p class="note">{found.length - LISTED} more; type to find them.</p>}
            </Card>
            <Card title="Plot">
              {shown.length === 0 ? <Empty>Choose up to {MOST} metrics.</Empty> : <MetricPlot key={shown.join()} path={`${path}/metrics`} ids={shown} />}
            </Card>
          </div>
        );
      }}
    </Loaded>
  );
}

interface Point {
  at: number;
  values: (number | null)[];
}

/** A point a second, also while the values stay what they are and nothing is pushed. */
function MetricPlot({ path, ids }: { path: string; ids: string[] }): JSX.Element {
  const live = useLive<MetricValue[]>(valuesOf(path, ids));
  const [points, setPoints] = useState<Point[]>([]);
  const known = new Map(live.data?.map((metric) => [metric.id, metric.value]));
  useEffect(() => {
    if (live.data === undefined || live.error !== "") return undefined;
    const values = ids.map((id) => finite(known.get(id)));
    const add = (): void => setPoints((before) => [...before.slice(1 - KEPT), { at: Date.now(), values }]);
    add();
    const timer = setInterval(add, EVERY_MS);
    return () => clearInterval(timer);
  }, [live]);
  return (
    <>
      <Plot label="Metrics" times={points.map(({ at }) => at)} series={ids.map((id, number) => ({ name: id, values: points.map(({ values }) => values[number] ?? null) }))} show={count} />
      <dl class="facts">
        {ids.map((id) => (
          <Fragment key={id}><dt>{id}</dt><dd>{known.get(id) ?? "–"}</dd></Fragment>
        ))}
      </dl>
      {live.error !== "" && <p class="note">{live.error}</p>}
    </>
  );
}

function finite(value: string | undefined): number | null {
  return value !== undefined && Number.isFinite(Number(value)) ? Number(value) : null;
}
