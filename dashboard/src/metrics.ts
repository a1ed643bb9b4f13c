// Which metrics one request is for. Pure.

const ROOM = 3800; // characters: a path of the stream has at most 4,000
const MOST = 40;

/** The path that returns the values of these metrics. */
export function valuesOf(path: string, ids: readonly string[]): string {
  return `${path}?get=${ids.map(encodeURIComponent).join(",")}`;
}

/** The metrics in parts, each of which fits into one path. */
export function inParts(path: string, ids: readonly string[]): string[][] {
  const parts: string[][] = [];
  let part: string[] = [];
  for (const id of ids) {
    if (part.length === MOST || (part.length > 0 && valuesOf(path, [...part, id]).length > ROOM)) {
      parts.push(part);
      part = [];
    }
    part.push(id);
  }
  return part.length > 0 ? [...parts, part] : parts;
}
