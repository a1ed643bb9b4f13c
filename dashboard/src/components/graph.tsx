// A job's graph: vertices are links, edges are drawn beneath them. It scrolls as any page does, so that the focus, the
// keyboard and touch move it by themselves.
//
// Of hundreds of vertices, only those in sight show more than their names, and only edges in sight have labels: the
// cost of an update, and of scrolling (150 ms for 500 vertices with all of their figures), depends on what is visible.

import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useMemo, useState } from "preact/hooks";
import { count, plural, rate } from "../format.ts";
import { NODE, place, shapeOf } from "../layout.ts";
import type { PlanNode } from "../types.ts";
import { useSize } from "./basics.tsx";
import { GraphNode, type GraphVertex } from "./graphnode.tsx";

export interface GraphEdge {
  rate: number | null;
  /** Buffers in flight: in the outputs of its source and the inputs of its target. */
  waiting: number | null;
  /** Buffers that its target has room for; null: the ends share a worker, and need none. */
  credit: number | null;
  /** Whether it backpressures its source. */
  backpressured: boolean;
}

interface GraphProps {
  nodes: readonly PlanNode[];
  vertices: ReadonlyMap<string, GraphVertex>;
  /** By `edgeKey`. */
  edges?: ReadonlyMap<string, GraphEdge>;
}

const STEPS = [0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1, 1.25];
const LEGIBLE = 0.35; // below, figures cannot be read
const NOTHING: GraphEdge = { rate: null, waiting: null, credit: null, backpressured: false };
const NO_EDGES: ReadonlyMap<string, GraphEdge> = new Map();

export function JobGraph({ nodes, vertices, edges = NO_EDGES }: GraphProps): JSX.Element {
  const shape = shapeOf(nodes);
  const placed = useMemo(() => place(nodes), [shape]);
  const [scale, setScale] = useState(1);
  const [sight, setSight] = useState<Sight>(NOWHERE);
  const look = (): void => {
    const seen = frame.current === null ? NOWHERE : seenIn(frame.current, scale);
    setSight((before) => (isSame(before, seen) ? before : seen));
  };
  const frame = useSize(look);
  const fit = (least: number, whole: boolean): number => {
    const room = frame.current;
    if (room === null || placed.width === 0) return scale;
    const high = whole ? (room.clientHeight - 4) / placed.height : 1;
    const fitting = Math.max(least, Math.min(1, (room.clientWidth - 4) / placed.width, high));
    setScale(fitting);
    return fitting;
  };
  useEffect(() => {
    const fitting = fit(0.55, false);
    const frames = requestAnimationFrame(() => { // when it is drawn to scale: a wide graph is higher than its frame, and opens at its first source
      const [room, first] = [frame.current, placed.nodes[0]];
      if (room !== null && first !== undefined) room.scrollTop = (first.y + NODE.height / 2) * fitting - room.clientHeight / 2;
    });
    return () => cancelAnimationFrame(frames);
  }, [shape]);
  useEffect(look, [scale, placed]);
  const zoom = (by: 1 | -1): void => {
    const next = by > 0 ? STEPS.find((step) => step > scale + 0.01) : STEPS.findLast((step) => step < scale - 0.01);
    setScale(next ?? scale);
  };
  const runs = [...vertices.values()].some((vertex) => vertex.status !== null);
  const near = scale >= LEGIBLE ? "full" : "far";
  return (
    <div class="graph">
      <div class="graph-frame" ref={frame} tabIndex={0} role="region" aria-label="Job graph; its vertices are links" onScroll={look}>
        <div class="graph-space" style={{ width: `${placed.width * scale}px`, height: `${placed.height * scale}px` }}>
          <div class="graph-scaled" style={{ width: `${placed.width}px`, height: `${placed.height}px`, transform: `scale(${scale})` }}>
            <svg width={placed.width} height={placed.height} aria-hidden="true">
              <defs>
                <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
                  <path d="M0,0.5 L7.5,4 L0,7.5 z" class="edge-head" />
                </marker>
              </defs>
              {placed.edges.map((edge) => (
                <path key={edge.key} d={edge.path} class={edgeClass(edges.get(edge.key) ?? NOTHING)} marker-end="url(#arrow)" />
              ))}
            </svg>
            {near === "full" && placed.edges.map((edge) =>
              isIn(sight, edge.label.x, edge.label.y, 0, 0)
                ? <EdgeLabel key={edge.key} x={edge.label.x} y={edge.label.y} strategy={edge.strategy} {...(edges.get(edge.key) ?? NOTHING)} />
                : null,
            )}
            {placed.nodes.map((node) => {
              const vertex = vertices.get(node.id);
              if (vertex === undefined) return null;
              const detail = isIn(sight, node.x, node.y, NODE.width, NODE.height) ? near : "bare";
              return <GraphNode key={node.id} place={node} vertex={vertex} detail={detail} />;
            })}
          </div>
        </div>
      </div>
      <div class="graph-foot">
        <p class="legend" aria-hidden="true">
          {runs && <><span class="key busy" /> busy <span class="key backpressured" /> backpressured <span class="key idle" /> idle</>}
        </p>
        <div class="graph-tools" role="group" aria-label="Zoom">
          <button type="button" onClick={() => zoom(-1)} aria-label="Zoom out">−</button>
          <button type="button" onClick={() => zoom(1)} aria-label="Zoom in">+</button>
          <button type="button" onClick={() => fit(0.1, true)}>Fit</button>
        </div>
      </div>
    </div>
  );
}

interface Sight {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const NOWHERE: Sight = { left: 0, top: 0, right: 0, bottom: 0 };
const STEP = 240; // what is seen is rounded to it, outwards by one: not every scrolled pixel changes it

/** The part of the graph that a frame shows, and a little around it. */
function seenIn(frame: HTMLElement, scale: number): Sight {
  const lower = (at: number): number => (Math.floor(at / scale / STEP) - 1) * STEP;
  const upper = (at: number): number => (Math.ceil(at / scale / STEP) + 1) * STEP;
  const { scrollLeft, scrollTop, clientWidth, clientHeight } = frame;
  return { left: lower(scrollLeft), top: lower(scrollTop), right: upper(scrollLeft + clientWidth), bottom: upper(scrollTop + clientHeight) };
}

function isSame(a: Sight, b: Sight): boolean {
  return a.left === b.left && a.top === b.top && a.right === b.right && a.bottom === b.bottom;
}

function isIn(sight: Sight, x: number, y: number, width: number, height: number): boolean {
  return x <= sight.right && x + width >= sight.left && y <= sight.bottom && y + height >= sight.top;
}

function edgeClass(edge: GraphEdge): string {
  return edge.backpressured ? "edge backpressured" : (edge.rate ?? 0) > 0 ? "edge flowing" : "edge";
}

type LabelProps = { x: number; y: number; strategy: string } & GraphEdge;

/** Queues and credit change from moment to moment: they are shown only on an edge that backpressures its source. */
const EdgeLabel = memo(function EdgeLabel({ x, y, strategy, rate: records, waiting, credit, backpressured }: LabelProps): JSX.Element {
  const title = waiting === null ? "" : `${plural(waiting, "buffer")} waiting${credit === null ? "" : `, credit for ${credit}`}`;
  return (
    <span class="edge-label" style={{ left: `${x}px`, top: `${y}px` }} aria-hidden="true" title={title}>
      <span>
        <b>{strategy.toLowerCase()}</b>
        {records !== null && <strong>{rate(records)}</strong>}
        {backpressured && waiting !== null && waiting > 0 && <em>{count(waiting)} waiting</em>}
        {backpressured && waiting !== null && waiting > 0 && credit !== null && <em class={credit === 0 ? "no-credit" : ""}>{credit === 0 ? "no credit" : `credit ${count(credit)}`}</em>}
      </span>
    </span>
  );
});
