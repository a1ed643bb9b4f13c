// The layout of the vertices and edges of a plan. Pure; computed again only when the plan changes.

import { Graph, layout } from "@dagrejs/dagre";
import type { PlanNode } from "./types.ts";

export const NODE = { width: 236, height: 136 };

export interface PlacedNode {
  id: string;
  x: number;
  y: number;
}

export interface PlacedEdge {
  /** As of `edgeKey`. */
  key: string;
  source: string;
  target: string;
  strategy: string;
  path: string;
  label: { x: number; y: number };
}

export interface Placed {
  width: number;
  height: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
}

/** Names an edge by its target and its place among the inputs of that. */
export function edgeKey(target: string, input: number): string {
  return `${target}-${input}`;
}

export function shapeOf(nodes: readonly PlanNode[]): string {
  return nodes.map((node) => `${node.id}<${(node.inputs ?? []).map((input) => input.id).join(",")}`).join(";");
}

export function place(nodes: readonly PlanNode[]): Placed {
  const graph = new Graph({ multigraph: true });
  const many = nodes.length > 100; // the tight ranker of many vertices takes seconds
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 92, marginx: 24, marginy: 24, ranker: many ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { ...NODE });
  const edges: { key: string; source: string; target: string; strategy: string }[] = [];
  for (const node of nodes) {
    (node.inputs ?? []).forEach((input, number) => {
      if (!graph.hasNode(input.id)) return;
      const key = edgeKey(node.id, number);
      graph.setEdge(input.id, node.id, {}, key);
      edges.push({ key, source: input.id, target: node.id, strategy: input.ship_strategy });
    });
  }
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: Number.isFinite(size.width) ? (size.width ?? 0) : 0,
    height: Number.isFinite(size.height) ? (size.height ?? 0) : 0,
    nodes: nodes.map((node) => {
      const at = graph.node(node.id) as { x: number; y: number };
      return { id: node.id, x: at.x - NODE.width / 2, y: at.y - NODE.height / 2 };
    }),
    edges: edges.map((edge) => {
      const found = graph.edge(edge.source, edge.target, edge.key) as { points: { x: number; y: number }[] };
      return { ...edge, path: smooth(found.points), label: middle(found.points) };
    }),
  };
}

function smooth(points: readonly { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${round(first.x)},${round(first.y)}`;
  let from = first;
  for (const to of rest) {
    const half = (from.x + to.x) / 2;
    path += `C${round(half)},${round(from.y)} ${round(half)},${round(to.y)} ${round(to.x)},${round(to.y)}`;
    from = to;
  }
  return path;
}

function middle(points: readonly { x: number; y: number }[]): { x: number; y: number } {
  const at = (points.length - 1) / 2;
  const [left, right] = [points[Math.floor(at)], points[Math.ceil(at)]];
  if (left === undefined || right === undefined) return { x: 0, y: 0 };
  return { x: (left.x + right.x) / 2, y: (left.y + right.y) / 2 };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
