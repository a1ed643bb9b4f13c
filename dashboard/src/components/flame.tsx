// A flame graph: what was on the stack, the widest first. Frames are buttons: pressing one zooms into it.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { OPERATOR, packageClass, packageOf, samplesByPackage } from "../flamekinds.ts";
import { count, percent, plural } from "../format.ts";
import { useLive } from "../live.ts";
import type { FlameNode } from "../types.ts";
import { Empty, Loaded, Notice } from "./basics.tsx";

const WITHOUT: Record<number, string> = {
  [-1]: "The task has ended.",
  [-2]: "Flame graphs are disabled: rest.flamegraph.enabled.",
};

const KINDS: [string, string][] = [
  ["on_cpu", "On-CPU"],
  ["off_cpu", "Off-CPU"],
  ["full", "Mixed"],
];

interface Sampled {
  data: FlameNode | null;
  endTimestamp: number;
  problems: string[];
}

/** The samples of a path, with the choice of the kind of samples and of the runtime's own frames above them. */
export function FlameGraph({ path }: { path: string }): JSX.Element {
  const [kind, setKind] = useState("on_cpu");
  const [runtime, setRuntime] = useState(false);
  const live = useLive<Sampled>(`${path}/flamegraph?type=${kind}&runtime=${runtime}`);
  return (
    <>
      <fieldset class="choice">
        <legend class="hidden">What is sampled</legend>
        {KINDS.map(([value, words]) => (
          <label key={value}><input type="radio" name="flame-kind" checked={kind === value} onChange={() => setKind(value)} /> {words}</label>
        ))}
        <label><input type="checkbox" checked={runtime} onChange={(event) => setRuntime(event.currentTarget.checked)} /> Runtime frames</label>
      </fieldset>
      <Loaded from={live} what="the flame graph">
        {({ data, endTimestamp, problems }) => (
          <>
            {problems.map((problem) => <Notice key={problem} tone="warn">{problem}</Notice>)}
            {data !== null && data.value > 0 ? <Flame root={data} /> : <Empty>{WITHOUT[endTimestamp] ?? (data === null ? "Sampling …" : "No samples of this kind.")}</Empty>}
          </>
        )}
      </Loaded>
    </>
  );
}

interface Frame {
  node: FlameNode;
  path: string;
  from: number;
  share: number;
  depth: number;
}

const ROW = 22;
const LEAST = 0.002;
const LEGEND = 8;

function Flame({ root }: { root: FlameNode }): JSX.Element {
  const [chosen, setChosen] = useState("");
  const frames = useMemo(() => framesOf(root, chosen), [root, chosen]);
  const packages = useMemo(() => samplesByPackage(root), [root]);
  const deep = Math.max(...frames.map((frame) => frame.depth)) + 1;
  return (
    <div class="flame">
      <div class="flame-head">
        <p aria-live="polite">
          <b>{plural(root.value, "sample")}</b>{" "}
          {chosen !== "" && <button type="button" class="link-button" onClick={() => setChosen("")}>Reset zoom</button>}
        </p>
        <ul class="flame-legend" aria-label="Samples by package">
          {packages.slice(0, LEGEND).map(([name, samples]) => (
            <li key={name}><span class={`flame-key ${packageClass(name)}`} aria-hidden="true" /> {name} <b>{percent(samples / root.value)}</b></li>
          ))}
        </ul>
      </div>
      <div class="flame-frame" style={{ height: `${deep * ROW}px` }}>
        {frames.map((frame) => {
          const { name, value } = frame.node;
          const words = frame.depth === 0 ? "all" : name;
          const share = percent(value / root.value);
          const of = packageOf(name, frame.depth);
          return (
            <button
              type="button"
              key={frame.path}
              class={packageClass(of)}
              style={{ left: `${frame.from * 100}%`, width: `${frame.share * 100}%`, top: `${frame.depth * ROW}px` }}
              title={`${words}: ${count(value)} of ${plural(root.value, "sample")}, ${share}${of === OPERATOR ? "" : `, ${of}`}`}
              onClick={() => setChosen(frame.path)}
            >
              {words} <span class="flame-share">{share}</span>
            </button>
          );
        })}
      </div>
    </div>
  );
}

/** Frames are identified by their path of names: the chosen one stays chosen when the order of samples changes. */
function framesOf(root: FlameNode, chosen: string): Frame[] {
  const frames: Frame[] = [];
  const visit = (node: FlameNode, path: string, from: number, share: number, depth: number): void => {
    if (share < LEAST) return;
    frames.push({ node, path, from, share, depth });
    const pathOf = (child: FlameNode): string => `${path}\n${child.name}`;
    const within = node.children.find((child) => `${chosen}\n`.startsWith(`${pathOf(child)}\n`));
    let at = from;
    for (const child of node.children) {
      const wide = within === undefined ? (share * child.value) / node.value : child === within ? share : 0;
      visit(child, pathOf(child), at, wide, depth + 1);
      at += wide;
    }
  };
  visit(root, root.name, 0, 1, 0);
  return frames;
}
