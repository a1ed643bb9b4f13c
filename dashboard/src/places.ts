// Which jobs are known to have ended: the navigation shows them under ended jobs.

import { signal } from "@preact/signals";

export const endedJobs = signal<ReadonlySet<string>>(new Set());

/** Called by the pages of a job whenever its state is known. */
export function noteJob(id: string, ended: boolean): void {
  const known = endedJobs.peek();
  if (known.has(id) === ended) return;
  endedJobs.value = ended ? new Set([...known, id]) : new Set([...known].filter((one) => one !== id));
}
