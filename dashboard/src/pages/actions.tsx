// The actions on a job, each with a dialog that explains it and has to be confirmed.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { outcome, send } from "../api.ts";
import { Dialog } from "../components/dialog.tsx";
import { refresh } from "../live.ts";
import type { Job } from "../types.ts";

export type Action = "cancel" | "stop" | "savepoint" | "rescale";

interface Triggered {
  "request-id": string;
}

export function ActionDialogs({ job, action, onClose }: { job: Job; action: Action; onClose: () => void }): JSX.Element {
  switch (action) {
    case "cancel":
      return <CancelDialog job={job} onClose={onClose} />;
    case "stop":
      return <SnapshotDialog job={job} stops onClose={onClose} />;
    case "savepoint":
      return <SnapshotDialog job={job} stops={false} onClose={onClose} />;
    case "rescale":
      return <RescaleDialog job={job} onClose={onClose} />;
  }
}

function CancelDialog({ job, onClose }: { job: Job; onClose: () => void }): JSX.Element {
  const cancel = async (): Promise<"close"> => {
    await send("PATCH", `/jobs/${job.jid}?mode=cancel`);
    refresh(`/jobs/${job.jid}`);
    return "close";
  };
  return (
    <Dialog title={`Cancel ${job.name}?`} action="Cancel the job" danger onConfirm={cancel} onClose={onClose}>
      <p>The job ends immediately, without a savepoint. To be able to resume it later, stop it instead.</p>
    </Dialog>
  );
}

function SnapshotDialog({ job, stops, onClose }: { job: Job; stops: boolean; onClose: () => void }): JSX.Element {
  const [directory, setDirectory] = useState("");
  const [drain, setDrain] = useState(false);
  const [done, setDone] = useState("");
  const trigger = async (): Promise<"stay"> => {
    const body = stops
      ? { drain, ...(directory === "" ? {} : { targetDirectory: directory }) }
      : directory === "" ? {} : { "target-directory": directory };
    const triggered = (await send("POST", `/jobs/${job.jid}/${stops ? "stop" : "savepoints"}`, body)) as Triggered;
    const found = await outcome(`/jobs/${job.jid}/savepoints/${triggered["request-id"]}`);
    refresh(`/jobs/${job.jid}`, `/jobs/${job.jid}/checkpoints`);
    setDone(found.location ?? "taken");
    return "stay"; // so that the path can be read and copied
  };
  return (
    <Dialog
      title={stops ? `Stop ${job.name} with a savepoint?` : `Take a savepoint of ${job.name}?`}
      action={stops ? "Stop the job" : "Take a savepoint"}
      danger={stops}
      done={done !== ""}
      onConfirm={trigger}
      onClose={onClose}
    >
      <p>{stops ? "The sources stop, records in flight are processed, and a savepoint is taken, from which a job can resume." : "The job keeps running while the savepoint is taken."}</p>
      <label class="field">
        Directory <span class="note">leave empty for the configured one</span>
        <input type="text" placeholder="file:///savepoints" value={directory} onInput={(event) => setDirectory(event.currentTarget.value.trim())} />
      </label>
      {stops && (
        <label class="check">
          <input type="checkbox" checked={drain} onChange={(event) => setDrain(event.currentTarget.checked)} />
          Drain: advance event time to its end first, so that all windows fire
        </label>
      )}
      <p aria-live="polite">{done !== "" && <>{stops ? "The job stops. " : ""}Savepoint: <code>{done}</code></>}</p>
    </Dialog>
  );
}

function RescaleDialog({ job, onClose }: { job: Job; onClose: () => void }): JSX.Element {
  const widest = Math.max(1, ...job.vertices.map((vertex) => vertex.parallelism));
  const [parallelism, setParallelism] = useState(widest);
  const rescale = async (): Promise<"close"> => {
    const triggered = (await send("PATCH", `/jobs/${job.jid}/rescaling?parallelism=${parallelism}`)) as Triggered;
    await outcome(`/jobs/${job.jid}/rescaling/${triggered["request-id"]}`);
    refresh(`/jobs/${job.jid}`);
    return "close";
  };
  return (
    <Dialog title={`Rescale ${job.name}?`} action="Rescale" onConfirm={rescale} onClose={onClose}>
      <p>The job restarts from a snapshot. Vertices whose parallelism the program does not set run with the new one.</p>
      <label class="field">
        Parallelism
        <input type="number" min="1" max="32768" required value={parallelism} onInput={(event) => setParallelism(Number(event.currentTarget.value))} />
      </label>
    </Dialog>
  );
}
