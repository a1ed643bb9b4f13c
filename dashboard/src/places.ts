// Which jobs have ended, as far as their pages have seen: the navigation shows them among the ended ones.

import { signal } from "@preact/signals";

export const endedJobs = signal<ReadonlySet<string>>(new Set());

/** Called with every state of a job that a page is of. */
export function noteJob(id: string, ended: boolean): void {
  const known = endedJobs.peek();
  if (known.has(id) === ended) return;
  endedJobs.value = ended ? new Set([...known, id]) : new Set([...known].filter((one) => one !== id));
}
