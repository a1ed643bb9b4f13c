// Which log file a page opens first. Pure.

import type { LogFile } from "./types.ts";

/** What is opened first: a log with something in it, else any file with something in it. */
export function mainLog(files: readonly LogFile[]): LogFile | undefined {
  const written = files.filter((file) => file.size > 0);
  return written.find((file) => file.name.endsWith(".log")) ?? written[0] ?? files[0];
}
