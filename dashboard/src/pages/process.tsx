// The metrics of a process, with their values now: the first forty, since a path that is looked at has at most 4,000 characters.

import type { JSX } from "preact";
import { Card, Loaded } from "../components/basics.tsx";
import { Table } from "../components/table.tsx";
import { useLive } from "../live.ts";
import type { MetricValue } from "../types.ts";

export function ProcessMetrics({ path }: { path: string }): JSX.Element {
  const names = useLive<MetricValue[]>(path);
  const wanted = (names.data ?? []).map((metric) => metric.id).slice(0, 40);
  const values = useLive<MetricValue[]>(wanted.length > 0 ? `${path}?get=${wanted.map(encodeURIComponent).join(",")}` : null);
  return (
    <Card title="Metrics" flush>
      <Loaded from={names} what="metrics of this process">
        {(all) => (
          <Table
            label="Metrics"
            rows={values.data ?? all}
            id={(row) => row.id}
            empty="It has reported none yet."
            sortedBy="Metric"
            columns={[
              { name: "Metric", by: (row) => row.id, cell: (row) => row.id },
              { name: "Value", number: true, by: (row) => Number(row.value ?? 0), cell: (row) => row.value ?? "–" },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}
