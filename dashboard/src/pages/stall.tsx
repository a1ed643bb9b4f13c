// "Why is nothing coming out?": what holds a job back, and what to do about it.

import type { JSX } from "preact";
import { Card, Loaded, Notice } from "../components/basics.tsx";
import { sentence, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { Job, Stall } from "../types.ts";

export function StallTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<Stall>(`/jobs/${job.jid}/stall`);
  return (
    <Loaded from={live} what="what holds the job back">
      {(stall) => (
        <>
          <Notice tone={stall.findings.length === 0 ? "good" : "warn"}>{stall.summary}</Notice>
          {stall.findings.map((found, number) => (
            <Card key={`${found.kind}-${found["vertex-id"]}-${number}`}>
              <h2>{sentence(found.kind.replaceAll("_", " ").toLowerCase())}</h2>
              <p>{found.message}</p>
              {found.advice !== null && <p class="advice"><b>What to do</b> {sentence(found.advice)}</p>}
              <p class="note">
                {found["vertex-id"] !== null && <a href={link("jobs", job.jid, "vertices", found["vertex-id"])}>{found.operator ?? "The vertex"}</a>}
                {found.since !== null && <> since {time(found.since)}</>}
              </p>
            </Card>
          ))}
          {stall.waiting.length > 0 && (
            <Card title="Waiting">
              <ul>
                {stall.waiting.map((waits) => (
                  <li key={`${waits["vertex-id"]}-${waits.operator}-${waits.kind}`}>
                    {waits.message} <a href={link("jobs", job.jid, "vertices", waits["vertex-id"])}>{waits.operator}</a>
                  </li>
                ))}
              </ul>
            </Card>
          )}
        </>
      )}
    </Loaded>
  );
}
