// A job's accumulators, and the counters of its tasks.

import type { JSX } from "preact";
import { Card, Loaded } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { useLive } from "../live.ts";
import type { Job } from "../types.ts";

interface Accumulator {
  name: string;
  type: string;
  value: string;
}

export function AccumulatorsTab({ job }: { job: Job }): JSX.Element {
  const live = useLive<{ "user-task-accumulators": Accumulator[] }>(`/jobs/${job.jid}/accumulators`);
  return (
    <Card title="Accumulators and counters" flush>
      <Loaded from={live} what="the accumulators">{(data) => <AccumulatorTable rows={data["user-task-accumulators"]} />}</Loaded>
    </Card>
  );
}

export function AccumulatorTable({ rows }: { rows: Accumulator[] }): JSX.Element {
  return (
    <Table
      label="Accumulators"
      rows={rows}
      id={(row) => `${row.type}-${row.name}`}
      empty="No accumulators have been registered."
      sortedBy="Name"
      columns={[
        { name: "Name", by: (row) => row.name, cell: (row) => row.name },
        { name: "Type", by: (row) => row.type, cell: (row) => row.type },
        { name: "Value", number: true, cell: (row) => row.value },
      ]}
    />
  );
}
