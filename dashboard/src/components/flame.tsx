// A flame graph: what was on the stack, the widest first. Frames are buttons: one that is pressed fills the width.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, percent } from "../format.ts";
import type { FlameNode } from "../types.ts";

interface Frame {
  node: FlameNode;
  path: string;
  from: number;
  share: number;
  depth: number;
}

const ROW = 22;
const LEAST = 0.002;

export function Flame({ root }: { root: FlameNode }): JSX.Element {
  const [chosen, setChosen] = useState("");
  const frames = useMemo(() => framesOf(root, chosen), [root, chosen]);
  const deep = Math.max(...frames.map((frame) => frame.depth)) + 1;
  const total = Math.max(1, root.value);
  return (
    <div class="flame">
      <p class="note" aria-live="polite">
        {count(root.value)} samples. {chosen !== "" && <button type="button" class="link-button" onClick={() => setChosen("")}>Show all</button>}
      </p>
      <div class="flame-frame" style={{ height: `${deep * ROW}px` }}>
        {frames.map((frame) => (
          <button
            type="button"
            key={frame.path}
            class={/millstream\/(core|taskmanager)|\bmillstream\.(core|taskmanager)/.test(frame.node.name) ? "ours" : "theirs"}
            style={{ left: `${frame.from * 100}%`, width: `${frame.share * 100}%`, top: `${frame.depth * ROW}px` }}
            title={`${frame.node.name}: ${percent(frame.node.value / total)}`}
            onClick={() => setChosen(frame.path)}
          >
            {frame.node.name}
          </button>
        ))}
      </div>
    </div>
  );
}

function framesOf(root: FlameNode, chosen: string): Frame[] {
  const frames: Frame[] = [];
  const visit = (node: FlameNode, path: string, from: number, share: number, depth: number): void => {
    if (share < LEAST) return;
    frames.push({ node, path, from, share, depth });
    const within = (node.children ?? []).findIndex((_, number) => leadsTo(`${path}.${number}`, chosen));
    let at = from;
    (node.children ?? []).forEach((child, number) => {
      const wide = within >= 0 ? (number === within ? share : 0) : (share * child.value) / Math.max(1, node.value);
      visit(child, `${path}.${number}`, at, wide, depth + 1);
      at += wide;
    });
  };
  visit(root, "0", 0, 1, 0);
  return frames;
}

function leadsTo(path: string, chosen: string): boolean {
  return chosen === path || chosen.startsWith(`${path}.`);
}
