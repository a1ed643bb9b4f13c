// The failures of a job: Python's tracebacks, with the record that was being processed.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Card, Copy, Empty, Loaded } from "../components/basics.tsx";
import { duration, plural, time } from "../format.ts";
import { useLive } from "../live.ts";
import { link } from "../router.ts";
import type { Exceptions, Failure, Job, RootFailure } from "../types.ts";

export function ExceptionsTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<Exceptions>(`/jobs/${job.jid}/exceptions`);
  return (
    <Loaded from={live} what="the exceptions">
      {({ exceptionHistory }) =>
        exceptionHistory.entries.length === 0 ? (
          <Empty>No failures in this job.</Empty>
        ) : (
          <>
            {exceptionHistory.entries.map((failure, number) => (
              <Root key={`${failure.timestamp}-${failure.taskName}-${failure.attempt}`} failure={failure} newest={number === 0} />
            ))}
            {exceptionHistory.truncated && <p class="note">Older failures are not retained.</p>}
          </>
        )
      }
    </Loaded>
  );
}

function Root({ failure, newest }: { failure: RootFailure; newest: boolean }): JSX.Element {
  const [opened] = useState(newest); // initially: a failure that is being read stays open when the next one comes
  return (
    <Card>
      <details class="failure" open={opened}>
        <summary>
          <span class="failure-name">{failure.exception.split("\n")[0]}</span>
          <span class="note">
            {time(failure.timestamp)}
            {failure.operator !== null && <> · in {failure.operator}</>}
            {failure.timesInARow !== null && failure.timesInARow > 1 && <> · {plural(failure.timesInARow, "time")} in a row</>}
          </span>
        </summary>
        <One failure={failure} />
        {failure.restart !== null && (
          <p>
            Restart {failure.restart}{failure.restartDelay !== null && <>, after {duration(failure.restartDelay)}</>}.
          </p>
        )}
        {failure.concurrentExceptions.length > 0 && (
          <details>
            <summary>{plural(failure.concurrentExceptions.length, "other task")} failed at the same time</summary>
            {failure.concurrentExceptions.map((other, number) => (
              <One key={number} failure={other} />
            ))}
          </details>
        )}
      </details>
    </Card>
  );
}

function One({ failure }: { failure: Failure }): JSX.Element {
  return (
    <>
      <dl class="facts">
        {failure.taskName !== null && <><dt>Task</dt><dd>{failure.taskName}</dd></>}
        {failure.subtask !== null && <><dt>Subtask</dt><dd>{failure.subtask}, attempt {failure.attempt}</dd></>}
        {failure.taskManagerId !== null && <><dt>Task manager</dt><dd><a href={link("taskmanagers", failure.taskManagerId)}>{failure.taskManagerId}</a></dd></>}
        {failure.record !== null && <><dt>Record</dt><dd><code>{failure.record}</code></dd></>}
      </dl>
      <Traceback text={failure.stacktrace} />
      <Copy text={failure.stacktrace} what="traceback" />
    </>
  );
}

const FRAME = /^ {2}File "(.*)", line (\d+), in (.*)$/;
const OWN = /\/millstream\/(core|taskmanager|jobmanager|dispatcher|datastream|common|table|cep)\//;

/** The user's frames stand out; those of the runtime and the interpreter are paler. */
function Traceback({ text }: { text: string }): JSX.Element {
  let theirs = true;
  return (
    <pre class="traceback" tabIndex={0} role="region" aria-label="Traceback">
      {text.trimEnd().split("\n").map((line, number) => {
        const frame = FRAME.exec(line);
        if (frame !== null) theirs = !OWN.test(frame[1] ?? "");
        const body = line.startsWith(" ");
        if (!body && !line.startsWith("Traceback")) theirs = true;
        const kind = !body ? (line.startsWith("Traceback") ? "head" : "cause") : theirs ? "theirs" : "ours";
        return <span key={number} class={kind}>{`${line}\n`}</span>;
      })}
    </pre>
  );
}
