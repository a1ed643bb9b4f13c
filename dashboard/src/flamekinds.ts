// The package of a frame of a flame graph, by its name, and the number of samples in each package. Pure.

import type { FlameNode } from "./types.ts";

export const OPERATOR = "Operators";
export const RUNTIME = "Millstream";
export const PYTHON = "Python";

const STANDARD = new Set(
  ("abc argparse array ast asyncio base64 bisect builtins bz2 calendar codecs collections concurrent contextlib copy csv ctypes " +
    "dataclasses datetime decimal difflib dis email encodings enum fractions functools gc getpass glob gzip hashlib heapq hmac html " +
    "http importlib inspect io ipaddress itertools json linecache locale logging lzma marshal math mimetypes mmap multiprocessing " +
    "numbers operator os pathlib pickle pkgutil platform pprint queue random re runpy sched select selectors shelve shutil signal " +
    "site socket socketserver sqlite3 ssl stat statistics string struct subprocess sys sysconfig tarfile tempfile textwrap threading " +
    "time timeit token tokenize traceback types typing unicodedata unittest urllib uuid warnings weakref xml zipfile zipimport zlib zoneinfo").split(" "),
);

/** `depth`: 0 is the root, 1 an operator. A frame of the program itself has the name of its file. */
export function packageOf(name: string, depth: number): string {
  if (depth === 0) return OPERATOR;
  if (/^\[|^millstream\./.test(name)) return RUNTIME; // in brackets: what the runtime does
  if (depth === 1) return OPERATOR;
  const file = /\(([^()]*?)(?::\d+)?\)$/.exec(name)?.[1] ?? "";
  const top = /^([a-z_]\w*)\.(?!<locals>)\S/.exec(name)?.[1];
  if (top !== undefined) return STANDARD.has(top.replace(/^_+/, "")) ? PYTHON : top;
  return file === "" || file.startsWith("<frozen") ? PYTHON : file;
}

/** Samples by the package of the frame that they were taken in, the most first; those of an operator are Millstream's. */
export function samplesByPackage(root: FlameNode): [string, number][] {
  const found = new Map<string, number>();
  const visit = (node: FlameNode, depth: number): void => {
    const own = node.value - node.children.reduce((sum, child) => sum + child.value, 0);
    if (own > 0) {
      const name = packageOf(node.name, depth);
      const of = name === OPERATOR ? RUNTIME : name;
      found.set(of, (found.get(of) ?? 0) + own);
    }
    for (const child of node.children) visit(child, depth + 1);
  };
  visit(root, 0);
  return [...found].sort(([, a], [, b]) => b - a);
}

const HUES = 6;

/** The class for a package's colour: the runtime and Python have muted ones. */
export function packageClass(name: string): string {
  if (name === OPERATOR) return "frame-operator";
  if (name === RUNTIME) return "frame-runtime";
  if (name === PYTHON) return "frame-python";
  let hash = 0;
  for (let at = 0; at < name.length; at += 1) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
  return `frame-${(hash % HUES) + 1}`;
}
