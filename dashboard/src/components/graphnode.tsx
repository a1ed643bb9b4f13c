// A vertex in a job's graph: a link, with its figures in as much detail as can be read.

import type { JSX } from "preact";
import { memo } from "preact/compat";
import { count, lag, percent, rate, stateName, unbroken, watermark } from "../format.ts";
import { NODE, type PlacedNode } from "../layout.ts";
import type { Rates } from "../rates.ts";
import { TimeBar } from "./basics.tsx";

export interface GraphVertex {
  name: string;
  parallelism: number;
  /** Null in a plan, before the job runs. */
  status: string | null;
  /** Null if the vertex has no page. */
  href: string | null;
  rates: Rates;
  watermark: number | null;
  /** The cluster's clock when the watermark was reported: the lag is measured against it. */
  now: number;
  skew: number | null;
  /** Of a vertex that has ended, in place of its rates. */
  totals: { in: number; out: number } | null;
}

/** `full`: all figures; `far`: too small for figures, only the name and colours; `bare`: out of sight, only the name. */
export type Detail = "full" | "far" | "bare";

interface NodeProps {
  place: PlacedNode;
  vertex: GraphVertex;
  detail: Detail;
}

const UNEVEN = 50;

/** Rendered again only when one of the figures that it shows has changed. */
export const GraphNode = memo(function GraphNode({ place, vertex, detail }: NodeProps): JSX.Element {
  const { name, href, rates } = vertex;
  const box = {
    class: `vertex ${detail === "bare" ? "bare" : tone(vertex)}`,
    style: { left: `${place.x}px`, top: `${place.y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` },
    title: vertex.watermark === null ? name : `${name}\nwatermark ${watermark(vertex.watermark)}`,
  };
  const inside = (
    <>
      {detail !== "bare" && vertex.status !== null && <TimeBar busy={rates.busy} backpressured={rates.backpressured} />}
      <span class="vertex-name">{unbroken(name)}</span>
      {detail === "full" && <Figures vertex={vertex} />}
    </>
  );
  return href === null ? <div {...box}>{inside}</div> : <a {...box} href={href}>{inside}</a>;
}, isSame);

function Figures({ vertex: { parallelism, status, rates, skew, watermark: mark, now, totals } }: { vertex: GraphVertex }): JSX.Element {
  if (status === null) return <span class="vertex-line">×{parallelism}</span>;
  return (
    <>
      <span class="vertex-line">
        <span class={`dot ${status.toLowerCase()}`} />
        {stateName(status)} · ×{parallelism}
        {skew !== null && parallelism > 1 && <span class={skew >= UNEVEN ? "skew high" : "skew"}>skew {Math.round(skew)} %</span>}
      </span>
      <span class="vertex-line figures">
        <span>in <b>{totals === null ? rate(rates.recordsIn) : count(totals.in)}</b></span>
        <span>out <b>{totals === null ? rate(rates.recordsOut) : count(totals.out)}</b></span>
      </span>
      {totals === null && (
        <span class="vertex-line figures">
          <span>busy <b>{percent(rates.busy)}</b></span>
          <span>backpressured <b>{percent(rates.backpressured)}</b></span>
        </span>
      )}
      {mark !== null && <span class="vertex-line mark">{lag(mark, now)}</span>}
    </>
  );
}

function isSame(a: NodeProps, b: NodeProps): boolean {
  if (a.place !== b.place || a.detail !== b.detail || a.vertex.href !== b.vertex.href) return false;
  return shown(a) === shown(b);
}

function shown({ detail, vertex }: NodeProps): string {
  const { name, parallelism, status, rates, skew, watermark: mark, now, totals } = vertex;
  if (detail === "bare") return name;
  const times = [name, tone(vertex), percent(rates.busy), percent(rates.backpressured)];
  if (detail === "far") return times.join("|");
  return [...times, status, parallelism, rate(rates.recordsIn), rate(rates.recordsOut), totals?.in, totals?.out, skew, mark === null ? "" : lag(mark, now)].join("|");
}

/** The class for the colour of the box: by its busy and backpressured time, unless it has ended. */
function tone({ status, rates: { busy, backpressured } }: GraphVertex): string {
  if (status === "FAILED") return "failed";
  if (status === "FINISHED") return "finished";
  if (busy === null || backpressured === null) return "";
  if (backpressured > 0.5) return "is-backpressured";
  return busy > 0.8 ? "is-hot" : busy > 0.5 ? "is-busy" : "";
}
