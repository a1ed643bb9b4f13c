// Series over time, drawn by uPlot in the page's own colours.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour, painted } from "../theme.ts";
import { useSize } from "./basics.tsx";

export interface Series {
  name: string;
  values: (number | null)[];
}

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const HEIGHT = 220;

export function Plot({
  label,
  times,
  series,
  show,
}: {
  label: string;
  times: number[];
  series: Series[];
  show: (value: number) => string;
}): JSX.Element {
  const plot = useRef<uPlot | null>(null);
  const frame = useSize((width) => plot.current?.setSize({ width, height: HEIGHT }));
  const names = series.map((one) => one.name).join("\n");
  const version = painted.value;
  const data: uPlot.AlignedData = [times.map((ms) => ms / 1000), ...series.map((one) => one.values)];
  useEffect(() => {
    if (frame.current === null) return undefined;
    const axis = { stroke: colour("--ink-2"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: "12px system-ui, sans-serif" };
    const made = new uPlot(
      {
        width: frame.current.clientWidth || 600,
        height: HEIGHT,
        cursor: { y: false, points: { size: 6 } },
        legend: { live: true },
        scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max((high ?? 1) * 1.05, 1e-9)] } },
        axes: [axis, { ...axis, size: 72, values: (_, ticks) => ticks.map(show) }],
        series: [
          { value: (_, at) => (at == null ? "–" : new Date(at * 1000).toLocaleTimeString("en-GB")) },
          ...series.map((one, number) => ({
            label: one.name,
            stroke: colour(COLOURS[number % COLOURS.length] ?? "--series-1"),
            width: 2,
            spanGaps: false,
            value: (_: uPlot, value: number | null | undefined) => (value == null ? "–" : show(value)),
          })),
        ],
      },
      data,
      frame.current,
    );
    plot.current = made;
    return () => made.destroy();
  }, [names, version]);
  useEffect(() => {
    plot.current?.setData(data);
    if (times.length > 0 && plot.current?.cursor.left === -10) plot.current.setLegend({ idx: times.length - 1 }); // nobody points at another
  });
  const last = series.map((one) => `${one.name} ${one.values.at(-1) == null ? "unknown" : show(one.values.at(-1) ?? 0)}`);
  return (
    <figure class="plot" aria-label={`${label}. Now: ${last.join(", ")}`} role="img">
      <div ref={frame} aria-hidden="true" />
    </figure>
  );
}
