// What happened to a job: its states, and what its job manager says of its parallelism.

import type { JSX } from "preact";
import { Card, Empty, Loaded } from "../components/basics.tsx";
import { time } from "../format.ts";
import { useLive } from "../live.ts";
import type { Job } from "../types.ts";

export function EventsTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<{ events: { timestamp: number; kind: string; message: string }[] }>(`/jobs/${job.jid}/events`);
  const states = Object.entries(job.timestamps)
    .filter(([, at]) => at > 0)
    .sort(([, a], [, b]) => a - b);
  return (
    <>
      <Card title="States">
        <ol class="timeline">
          {states.map(([state, at]) => (
            <li key={state}><time dateTime={new Date(at).toISOString()}>{time(at)}</time> {state.toLowerCase()}</li>
          ))}
        </ol>
      </Card>
      <Card title="Events">
        <Loaded from={live} what="the events">
          {({ events }) =>
            events.length === 0 ? <Empty>Nothing out of the ordinary happened.</Empty> : (
              <ol class="timeline">
                {[...events].reverse().map((event, number) => (
                  <li key={`${event.timestamp}-${number}`}>
                    <time dateTime={new Date(event.timestamp).toISOString()}>{time(event.timestamp)}</time>
                    <span class="badge quiet">{event.kind.replaceAll("_", " ").toLowerCase()}</span> {event.message}
                  </li>
                ))}
              </ol>
            )
          }
        </Loaded>
      </Card>
    </>
  );
}
