// Plots of selected metrics of a vertex over the last hour.

import { Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";
import { Card, Empty, Loaded, Search } from "../components/basics.tsx";
import { HistoryPlot } from "../components/history.tsx";
import { byName, unbroken } from "../format.ts";
import { useLive } from "../live.ts";
import { metricValue, readableMetric } from "../metricnames.ts";
import { valuesOf } from "../metrics.ts";
import type { Job, MetricValue } from "../types.ts";

const MOST = 6;
const LISTED = 300;
/** Of the vertex as a whole; the dispatcher records them of every job. */
const WHOLE = ["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "watermarkLag"];
const FIRST = WHOLE.slice(0, 2);

interface Named {
  id: string;
  label: string;
  group: string;
}

export function MetricsTab({ path, job, vertex }: { path: string; job: Job | undefined; vertex: string }): JSX.Element {
  const all = useLive<MetricValue[]>(`${path}/metrics`);
  const [chosen, setChosen] = useState<string[]>(FIRST);
  const [sought, setSought] = useState("");
  const vertices = new Map(job?.vertices.map((one) => [one.id, one.name]));
  return (
    <Loaded from={all} what="metrics">
      {(metrics) => {
        const measured = metrics.map((metric) => nameOf(metric.id, vertices)).sort((a, b) => byName(a.group, b.group) || byName(a.label, b.label));
        const named = [...WHOLE.map((id) => nameOf(id, vertices)), ...measured];
        const wanted = sought.trim().toLowerCase();
        const found = named.filter(({ id, label, group }) => `${id} ${group} ${label}`.toLowerCase().includes(wanted));
        const toggle = (id: string): void => setChosen(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-MOST));
        const listed = found.slice(0, LISTED);
        return (
          <div class="metrics">
            <Card title="Metrics">
              <Search label="Subtask or name" value={sought} onInput={setSought} />
              <ul class="metric-list" tabIndex={0} aria-label="Metrics to plot">
                {listed.map(({ id, label, group }, number) => (
                  <Fragment key={id}>
                    {listed[number - 1]?.group !== group && <li class="metric-group">{group}</li>}
                    <li><label class="check" title={id}><input type="checkbox" checked={chosen.includes(id)} onChange={() => toggle(id)} /> {label}</label></li>
                  </Fragment>
                ))}
              </ul>
              {found.length > LISTED && <p class="note">{found.length - LISTED} more: use the search to find them.</p>}
            </Card>
            <div class="plots">
              {chosen.length === 0 ? <Card title="Plot"><Empty>Select up to {MOST} metrics.</Empty></Card> : (
                plotsOf(chosen).map((ids) => <MetricPlot key={ids.join()} path={path} job={job} ids={ids} vertices={vertices} vertex={vertex} />)
              )}
            </div>
          </div>
        );
      }}
    </Loaded>
  );
}

function nameOf(id: string, vertices: ReadonlyMap<string, string>): Named {
  const { of, name, subtask } = readableMetric(id, vertices);
  return { id, label: of === "" ? name : `${of}: ${name}`, group: subtask === null ? "Whole vertex" : `Subtask ${subtask}` };
}

/** Metrics of one unit share a plot. */
function plotsOf(ids: readonly string[]): string[][] {
  const plots = new Map<string, string[]>();
  for (const id of ids) {
    const unit = metricValue(id, 100).replace(/[\d.,\s−]+/, "");
    plots.set(unit, [...(plots.get(unit) ?? []), id]);
  }
  return [...plots.values()];
}

interface MetricSeries {
  id: string;
  values: (number | null)[];
}

interface MetricPlotProps {
  path: string;
  job: Job | undefined;
  ids: string[];
  vertices: ReadonlyMap<string, string>;
  vertex: string;
}

function MetricPlot({ path, job, ids, vertices, vertex }: MetricPlotProps): JSX.Element {
  const now = useLive<MetricValue[]>(ids.every((id) => WHOLE.includes(id)) ? null : valuesOf(`${path}/metrics`, ids));
  const known = new Map(now.data?.map((metric) => [metric.id, metric.value]));
  const labels = new Map(ids.map((id) => [id, labelOf(id, vertices)]));
  const show = (value: number): string => metricValue(ids[0] ?? "", value);
  return (
    <>
      <HistoryPlot<MetricSeries>
        title={ids.length === 1 ? (labels.get(ids[0] ?? "") ?? "") : `${ids.length} metrics of ${unbroken(vertex)}`}
        path={valuesOf(`${path}/history`, ids)}
        name={({ id }) => labels.get(id) ?? id}
        show={show}
        started={job?.["start-time"] ?? 0}
      />
      {known.size > 0 && (
        <dl class="facts now">
          {ids.filter((id) => known.has(id)).map((id) => (
            <Fragment key={id}><dt>{labels.get(id)}</dt><dd>{metricValue(id, known.get(id))}</dd></Fragment>
          ))}
        </dl>
      )}
    </>
  );
}

function labelOf(id: string, vertices: ReadonlyMap<string, string>): string {
  const { label, group } = nameOf(id, vertices);
  return group === "Whole vertex" ? label : `${group} · ${label}`;
}
