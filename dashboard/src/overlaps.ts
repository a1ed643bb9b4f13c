// Which lines of a plot lie on each other: they are dashed, so that all of them are seen. Pure.

type Values = readonly (number | null)[];

const CLOSE = 0.01; // of the plot's height
const SHARE = 0.5;

/** By series: how many of the earlier ones it lies on. */
export function overlaid(series: readonly Values[]): number[] {
  const highest = Math.max(0, ...series.flatMap((values) => values.filter((value) => value !== null)));
  return series.map((values, number) => series.slice(0, number).filter((other) => isSame(values, other, highest)).length);
}

function isSame(a: Values, b: Values, highest: number): boolean {
  let both = 0;
  let same = 0;
  a.forEach((value, at) => {
    const other = b[at];
    if (value === null || other === null || other === undefined) return;
    both += 1;
    if (Math.abs(value - other) <= CLOSE * highest) same += 1;
  });
  return both > 0 && same / both >= SHARE;
}
