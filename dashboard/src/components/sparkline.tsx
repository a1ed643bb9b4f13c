// A rate over the last minutes, small enough for a row of a table. The figure is beside it.

import type { JSX } from "preact";
import { memo } from "preact/compat";

const WIDTH = 96;
const HEIGHT = 24;

export const Sparkline = memo(function Sparkline({ values }: { values: readonly (number | null)[] }): JSX.Element {
  const highest = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const x = (at: number): number => Math.round(((at + 0.5) / Math.max(1, values.length)) * WIDTH * 10) / 10;
  const y = (value: number): number => Math.round((HEIGHT - 2 - (value / highest) * (HEIGHT - 5)) * 10) / 10;
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <path class="spark-base" d={`M0,${HEIGHT - 1.5}H${WIDTH}`} />
      {runs(values).map((run) => {
        const line = run.map(([at, value]) => `${x(at)},${y(value)}`).join("L");
        const [first, last] = [run[0]?.[0] ?? 0, run.at(-1)?.[0] ?? 0];
        return (
          <g key={first}>
            <path class="spark-fill" d={`M${x(first)},${HEIGHT - 2}L${line}L${x(last)},${HEIGHT - 2}z`} />
            <path class="spark-line" d={run.length > 1 ? `M${line}` : `M${x(first) - 1},${y(run[0]?.[1] ?? 0)}h2`} />
          </g>
        );
      })}
    </svg>
  );
}, (a, b) => a.values.join() === b.values.join());

/** The parts between gaps. */
function runs(values: readonly (number | null)[]): [number, number][][] {
  const found: [number, number][][] = [];
  let run: [number, number][] = [];
  values.forEach((value, at) => {
    if (value !== null) {
      if (run.length === 0) found.push(run);
      run.push([at, value]);
    } else {
      run = [];
    }
  });
  return found;
}
