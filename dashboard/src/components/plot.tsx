// Series over time, drawn by uPlot in the page's own colours. It takes its place before there is anything to draw.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { overlaid } from "../overlaps.ts";
import { colour, painted } from "../theme.ts";
import { useSize } from "./basics.tsx";

export interface Series {
  name: string;
  /** Null: a gap. */
  values: (number | null)[];
}

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const HEIGHT = 200;
const DASH = 7;

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

function shortClock(seconds: number, ticks: number[]): string {
  const whole = ticks.every((tick) => tick % 60 === 0);
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", whole ? { hour: "2-digit", minute: "2-digit" } : {});
}

/** `span`: what the axis spans at least, in milliseconds. */
export function Plot({
  label,
  times,
  series,
  show,
  span,
  fills = false,
  empty,
}: {
  label: string;
  times: number[];
  series: Series[];
  show: (value: number) => string;
  span: number;
  /** Whether the area beneath a single line is filled. */
  fills?: boolean;
  /** Shown while there is nothing to draw. */
  empty: string;
}): JSX.Element {
  const plot = useRef<uPlot | null>(null);
  const frame = useSize((width) => plot.current?.setSize({ width, height: HEIGHT }));
  const beneath = overlaid(series.map((one) => one.values));
  const drawn = series.map((one, number) => `${one.name}\t${beneath[number] ?? 0}`).join("\n");
  const version = painted.value;
  const nothing = !series.some((one) => one.values.some((value) => value !== null));
  const shown = useRef({ span, show, nothing });
  shown.current = { span, show, nothing };
  const data: uPlot.AlignedData = [times.map((ms) => ms / 1000), ...series.map((one) => one.values)];
  useEffect(() => {
    if (frame.current === null) return undefined;
    const axis = { stroke: colour("--ink-2"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const range = (_: uPlot, from: number, to: number): [number, number] => [Math.min(from, to - shown.current.span / 1000), to];
    const made = new uPlot(
      {
        width: frame.current.clientWidth || 600,
        height: HEIGHT,
        cursor: { y: false, points: { size: 6 } },
        legend: { live: true },
        scales: { x: { time: true, range }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? (high ?? 0) * 1.08 : 1] } },
        axes: [
          { ...axis, size: 30, space: 90, values: (_, ticks) => ticks.map((tick) => (shown.current.nothing ? "" : shortClock(tick, ticks))) },
          { ...axis, size: 68, space: 30, values: (_, ticks) => ticks.map((tick) => (shown.current.nothing ? "" : shown.current.show(tick))) },
        ],
        series: [
          { label: "Time", value: (_, at) => (at == null ? "–" : clock(at)) },
          ...series.map((one, number): uPlot.Series => {
            const stroke = colour(COLOURS[number % COLOURS.length] ?? "--series-1");
            const under = beneath[number] ?? 0;
            return {
              label: one.name,
              stroke,
              width: 2,
              spanGaps: false,
              points: { show: false },
              ...(under > 0 ? { dash: [DASH, DASH * under] } : {}), // the line beneath is visible between the dashes
              ...(fills && series.length === 1 ? { fill: faded(stroke) } : {}),
              value: (_, value) => (value == null ? "–" : shown.current.show(value)),
            };
          }),
        ],
      },
      data,
      frame.current,
    );
    plot.current = made;
    return () => made.destroy();
  }, [drawn, version]);
  useEffect(() => {
    plot.current?.setData(data);
    const frames = requestAnimationFrame(() => { // when a new plot has drawn itself, which empties its legend
      const made = plot.current;
      if (times.length > 0 && made !== null && (made.cursor.left ?? -1) < 0) made.setLegend({ idx: times.length - 1 }); // no point is pointed at
    });
    return () => cancelAnimationFrame(frames);
  });
  const last = series.map((one) => `${one.name} ${one.values.at(-1) == null ? "unknown" : show(one.values.at(-1) ?? 0)}`);
  return (
    <figure class="plot" aria-label={`${label}. Now: ${last.join(", ")}`} role="img">
      <div ref={frame} aria-hidden="true" />
      {nothing && <p class="plot-empty">{empty}</p>}
    </figure>
  );
}

function faded(stroke: string): string {
  return stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");
}
