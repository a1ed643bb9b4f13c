// The events of a job: restarts, rescales and changes of leader, as a timeline and as a list.

import type { JSX } from "preact";
import { Card, Empty, Loaded } from "../components/basics.tsx";
import { duration, plural, sentence, stateName, time } from "../format.ts";
import { useLive } from "../live.ts";
import type { Exceptions, Job } from "../types.ts";

interface JobEvent {
  timestamp: number;
  kind: string;
  message: string;
}

type Tone = "bad" | "warn" | "good" | "done" | "quiet";

interface Mark {
  at: number;
  tone: Tone;
  words: string;
}

const TONES: Record<string, Tone> = {
  RESTARTED: "bad",
  RESCALE_FAILED: "bad",
  LEADER_CHANGED: "warn",
  RESCALE_STARTED: "quiet",
  RESCALE_COMPLETED: "done",
  SCALING_DECISION: "quiet",
  REQUIREMENTS_CHANGED: "quiet",
  PARALLELISM_CHOSEN: "quiet",
};
const STATES: Record<string, Tone> = { RUNNING: "good", FINISHED: "done", FAILED: "bad", FAILING: "bad", RESTARTING: "warn", CANCELED: "quiet" };
const MOST_RESTARTS = 100;

export function EventsTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<{ events: JobEvent[] }>(`/jobs/${job.jid}/events`);
  const failures = useLive<Exceptions>(`/jobs/${job.jid}/exceptions?maxExceptions=${MOST_RESTARTS}`).data?.exceptionHistory.entries ?? [];
  const states = Object.entries(job.timestamps)
    .filter(([, at]) => at > 0)
    .sort(([, a], [, b]) => a - b);
  return (
    <Loaded from={live} what="the events">
      {({ events }) => {
        const restarts = failures
          .filter((failure) => failure.restart !== null)
          .map((failure): Mark => ({ at: failure.timestamp, tone: "bad", words: `Restart ${failure.restart}: ${failure.exception.split("\n")[0]}` }));
        const counted = new Set(restarts.map((restart) => restart.at));
        const others = events
          .filter((event) => event.kind !== "RESTARTED" || restarts.length === 0 || ![...counted].some((at) => Math.abs(at - event.timestamp) < 1000))
          .map((event): Mark => ({ at: event.timestamp, tone: TONES[event.kind] ?? "quiet", words: sentence(event.message) }));
        const entered = states.map(([state, at]): Mark => ({ at, tone: STATES[state] ?? "quiet", words: words(state) }));
        const marks = [...entered, ...others, ...restarts].sort((a, b) => a.at - b.at);
        return (
          <>
            <Card title="Timeline" aside={<span class="note">{job.restarts === 0 ? "No restarts" : `${plural(job.restarts, "restart")}${restarts.length > 0 && restarts.length < job.restarts ? `, the last ${restarts.length} are marked` : ""}`}</span>}>
              <Timeline job={job} marks={marks} />
            </Card>
            <Card title="Events">
              {marks.length === 0 ? <Empty>No events yet.</Empty> : (
                <ol class="timeline">
                  {[...marks].reverse().map((mark, number) => (
                    <li key={`${mark.at}-${number}`}>
                      <time dateTime={new Date(mark.at).toISOString()}>{time(mark.at)}</time>
                      <span class={`mark-dot ${mark.tone}`} aria-hidden="true" /> <span class="timeline-words">{mark.words}</span>
                    </li>
                  ))}
                </ol>
              )}
            </Card>
          </>
        );
      }}
    </Loaded>
  );
}

/** From the start of the job to its end, or to now; only the last restarts are marked. */
function Timeline({ job, marks }: { job: Job; marks: readonly Mark[] }): JSX.Element {
  const from = Math.min(job["start-time"], ...marks.map((mark) => mark.at));
  const to = Math.max(job["end-time"] > 0 ? job["end-time"] : job.now, ...marks.map((mark) => mark.at), from + 1000);
  const place = (at: number): string => `${((at - from) / (to - from)) * 100}%`;
  return (
    <figure class="strip" role="img" aria-label={`From ${time(from)} to ${time(to)}: ${plural(job.restarts, "restart")}`}>
      <div class="strip-line" aria-hidden="true">
        {marks.map((mark, number) => (
          <span key={`${mark.at}-${number}`} class={`strip-mark ${mark.tone}`} style={{ left: place(mark.at) }} title={`${time(mark.at)} · ${mark.words}`} />
        ))}
      </div>
      <figcaption class="strip-ends" aria-hidden="true">
        <span>{time(from)}</span>
        <span>{duration(to - from)}</span>
        <span>{job["end-time"] > 0 ? time(to) : "now"}</span>
      </figcaption>
    </figure>
  );
}

function words(state: string): string {
  return sentence(stateName(state));
}
