// A job's graph: vertices are links, edges are drawn beneath them. It scrolls as any page does, so that the focus, the
// keyboard and touch move it by themselves.

import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, percent, plural, rate, watermark } from "../format.ts";
import { NODE, place, shapeOf, type PlacedEdge } from "../layout.ts";
import { ratesOf, type Rates, type Sample } from "../rates.ts";
import { link } from "../router.ts";
import type { Flow, Job, Vertex } from "../types.ts";
import { TimeBar } from "./basics.tsx";

const STEPS = [0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1, 1.25];

export function JobGraph({ job, samples, flow }: { job: Job; samples: readonly Sample[]; flow: Flow | undefined }): JSX.Element {
  const shape = shapeOf(job.plan.nodes);
  const placed = useMemo(() => place(job.plan.nodes), [shape]);
  const frame = useRef<HTMLDivElement>(null);
  const [scale, setScale] = useState<number | null>(null);
  const fit = (): void => {
    const room = frame.current?.getBoundingClientRect();
    if (room === undefined || placed.width === 0) return;
    const whole = Math.min(1, (room.width - 4) / placed.width, (room.height - 4) / placed.height);
    setScale(Math.max(0.1, whole));
  };
  useEffect(() => {
    const room = frame.current?.getBoundingClientRect();
    if (room !== undefined) setScale(Math.max(0.55, Math.min(1, (room.width - 4) / placed.width)));
  }, [shape]);
  const zoom = (by: number): void => {
    const now = scale ?? 1;
    const next = by > 0 ? STEPS.find((step) => step > now + 0.01) : STEPS.findLast((step) => step < now - 0.01);
    setScale(next ?? now);
  };
  const vertices = new Map(job.vertices.map((vertex) => [vertex.id, vertex]));
  const flows = new Map(flow?.vertices.map((vertex) => [vertex.id, vertex]));
  const rates = new Map(job.vertices.map((vertex) => [vertex.id, ratesOf(samples, vertex.id)]));
  const shown = scale ?? 1;
  return (
    <div class="graph">
      <div class="graph-tools" role="group" aria-label="Zoom">
        <button type="button" onClick={() => zoom(-1)} aria-label="Zoom out">−</button>
        <button type="button" onClick={() => zoom(1)} aria-label="Zoom in">+</button>
        <button type="button" onClick={fit}>Fit</button>
      </div>
      <div class="graph-frame" ref={frame} tabIndex={0} role="region" aria-label="Job graph; its vertices are links">
        <div class="graph-space" style={{ width: `${placed.width * shown}px`, height: `${placed.height * shown}px` }}>
          <div
            class="graph-scaled"
            style={{ width: `${placed.width}px`, height: `${placed.height}px`, transform: `scale(${shown})` }}
          >
            <svg width={placed.width} height={placed.height} aria-hidden="true">
              <defs>
                <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
                  <path d="M0,0.5 L7.5,4 L0,7.5 z" class="edge-head" />
                </marker>
              </defs>
              {placed.edges.map((edge) => (
                <path key={edge.key} d={edge.path} class={edgeClass(rates.get(edge.source))} marker-end="url(#arrow)" />
              ))}
            </svg>
            {placed.edges.map((edge) => (
              <EdgeLabel
                key={edge.key}
                x={edge.label.x}
                y={edge.label.y}
                strategy={edge.strategy}
                out={edgeRate(rates, edge)}
                waiting={waiting(flows.get(edge.source)?.["queued-out"], flows.get(edge.target)?.["queued-in"])}
                credit={flows.get(edge.source)?.credit ?? null}
              />
            ))}
            {placed.nodes.map((node) => {
              const vertex = vertices.get(node.id);
              if (vertex === undefined) return null;
              const also = flows.get(node.id);
              return (
                <GraphNode
                  key={node.id}
                  job={job.jid}
                  vertex={vertex}
                  x={node.x}
                  y={node.y}
                  rates={rates.get(node.id) ?? null}
                  watermark={also?.watermark ?? null}
                  skew={also?.skew ?? null}
                />
              );
            })}
          </div>
        </div>
      </div>
      <p class="legend" aria-hidden="true">
        <span class="key busy" /> busy <span class="key backpressured" /> backpressured <span class="key idle" /> idle
      </p>
    </div>
  );
}

function edgeClass(rates: Rates | undefined): string {
  if ((rates?.backpressured ?? 0) > 0.5) return "edge backpressured";
  return (rates?.recordsOut ?? 0) > 0 ? "edge flowing" : "edge";
}

function edgeRate(rates: Map<string, Rates>, edge: PlacedEdge): number | null {
  if (edge.measuredAt === "target") return rates.get(edge.target)?.recordsIn ?? null;
  return edge.measuredAt === "source" ? (rates.get(edge.source)?.recordsOut ?? null) : null;
}

/** Buffers on the way: what waits in the outputs of the one and the inputs of the other. */
function waiting(out: number | null | undefined, into: number | null | undefined): number | null {
  return out == null && into == null ? null : (out ?? 0) + (into ?? 0);
}

interface LabelProps {
  x: number;
  y: number;
  strategy: string;
  out: number | null;
  waiting: number | null;
  credit: number | null;
}

const EdgeLabel = memo(function EdgeLabel({ x, y, strategy, out, waiting: queued, credit }: LabelProps): JSX.Element {
  const told = queued === null ? "" : `${plural(queued, "buffer")} waiting${credit === null ? "" : `, credit for ${credit}`}`;
  return (
    <span class="edge-label" style={{ left: `${x}px`, top: `${y}px` }} aria-hidden="true" title={told}>
      <b>{strategy.toLowerCase()}</b>
      {out !== null && <span>{rate(out)}</span>}
      {queued !== null && queued > 0 && <em>{count(queued)} waiting</em>}
      {queued !== null && queued > 0 && credit === 0 && <em class="no-credit">no credit</em>}
    </span>
  );
});

interface NodeProps {
  job: string;
  vertex: Vertex;
  x: number;
  y: number;
  rates: Rates | null;
  watermark: number | null;
  skew: number | null;
}

/** Rendered again only when something that it shows is another figure. */
const GraphNode = memo(
  function GraphNode({ job, vertex, x, y, rates, watermark: mark, skew }: NodeProps): JSX.Element {
    const state = stateOf(rates, vertex.status);
    return (
      <a
        class={`vertex ${state}`}
        href={link("jobs", job, "vertices", vertex.id)}
        style={{ left: `${x}px`, top: `${y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` }}
        title={vertex.name}
      >
        <TimeBar busy={rates?.busy ?? null} backpressured={rates?.backpressured ?? null} />
        <span class="vertex-name">{vertex.name}</span>
        <span class="vertex-line">
          <span class={`dot ${vertex.status.toLowerCase()}`} />
          {vertex.status.toLowerCase()} · ×{vertex.parallelism}
          {skew !== null && vertex.parallelism > 1 && <span class={skew >= 50 ? "skew high" : "skew"}>skew {Math.round(skew)} %</span>}
        </span>
        <span class="vertex-line figures">
          <span>in <b>{rate(rates?.recordsIn ?? null)}</b></span>
          <span>out <b>{rate(rates?.recordsOut ?? null)}</b></span>
        </span>
        <span class="vertex-line figures">
          <span>busy <b>{percent(rates?.busy ?? null)}</b></span>
          <span>backpressured <b>{percent(rates?.backpressured ?? null)}</b></span>
        </span>
        {mark !== null && <span class="vertex-line mark">watermark {watermark(mark)}</span>}
      </a>
    );
  },
  (a, b) => fingerprint(a) === fingerprint(b),
);

function fingerprint({ job, vertex, x, y, rates, watermark: mark, skew }: NodeProps): string {
  const figures = [rates?.recordsIn, rates?.recordsOut].map((value) => rate(value ?? null));
  const shares = [rates?.busy, rates?.backpressured].map((value) => percent(value ?? null));
  return [job, vertex.id, vertex.name, vertex.status, vertex.parallelism, x, y, ...figures, ...shares, mark, skew].join("|");
}

function stateOf(rates: Rates | null, status: string): string {
  if (status === "FAILED") return "failed";
  if (status === "FINISHED") return "finished";
  if (rates === null || rates.busy === null || rates.backpressured === null) return "";
  if (rates.backpressured > 0.5) return "is-backpressured";
  return rates.busy > 0.8 ? "is-hot" : rates.busy > 0.5 ? "is-busy" : "";
}
