// Options and their values.

import type { JSX } from "preact";
import { Table } from "../components/table.tsx";

export function OptionTable({ rows }: { rows: { key: string; value: string }[] }): JSX.Element {
  return (
    <Table
      label="Options"
      rows={rows}
      id={(row) => row.key}
      empty="No options are set; all have their default values."
      sortedBy="Option"
      columns={[
        { name: "Option", by: (row) => row.key, cell: (row) => <code>{row.key}</code> },
        { name: "Value", by: (row) => row.value, cell: (row) => <code class="value">{row.value}</code> },
      ]}
    />
  );
}
