// Which log file a page opens first. Pure.

import type { LogFile } from "./types.ts";

/** The process's own log, which has the shortest name, unless it is empty: then another one with something in it. */
export function mainLog(files: readonly LogFile[]): LogFile | undefined {
  const written = files.filter((file) => file.size > 0);
  const logs = written.filter((file) => file.name.endsWith(".log")).sort((a, b) => a.name.length - b.name.length);
  return logs[0] ?? written[0] ?? files[0];
}
