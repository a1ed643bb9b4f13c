// Which metrics are asked for at a time. Pure.

const ROOM = 3800; // characters: a path that is looked at has at most 4,000
const MOST = 40;

/** The path that answers the values of these metrics. */
export function valuesOf(path: string, ids: readonly string[]): string {
  return `${path}?get=${ids.map(encodeURIComponent).join(",")}`;
}

/** The metrics in parts, each of which one path can ask for. */
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
