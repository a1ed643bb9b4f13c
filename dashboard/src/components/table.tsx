// Tables: sorted by a click on a heading, and of long ones only the rows in sight are in the page.

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  /** What the rows are sorted by; without it, they cannot be. */
  by?: (row: T) => number | string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  id: (row: T) => string | number;
  empty: ComponentChildren;
  sortedBy?: string;
  descending?: boolean;
}

const ROW = 38;
const MANY = 80;
const AROUND = 12;
const HEIGHT = 560;

export function Table<T>({ label, columns, rows, id, empty, sortedBy, descending = false }: TableProps<T>): JSX.Element {
  const [order, setOrder] = useState({ column: sortedBy ?? "", down: descending });
  const [top, setTop] = useState(0);
  const frame = useRef(0);
  const sorted = useMemo(() => sort(rows, columns, order), [rows, order]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const many = sorted.length > MANY;
  const first = many ? Math.max(0, Math.floor(top / ROW) - AROUND) : 0;
  const last = many ? Math.min(sorted.length, Math.ceil((top + HEIGHT) / ROW) + AROUND) : sorted.length;
  const scrolled = (event: Event): void => {
    const at = (event.currentTarget as HTMLElement).scrollTop;
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => setTop(at));
  };
  return (
    <div
      class={many ? "table-frame long" : "table-frame"}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={many ? scrolled : undefined}
    >
      <table aria-label={label} aria-rowcount={sorted.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.number ? "number" : ""} aria-sort={sortOf(column, order)}>
                {column.by === undefined ? column.name : (
                  <button
                    type="button"
                    onClick={() => setOrder({ column: column.name, down: order.column === column.name && !order.down })}
                  >
                    {column.name}
                    <span aria-hidden="true" class="sort-mark">
                      {order.column === column.name ? (order.down ? "↓" : "↑") : ""}
                    </span>
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${first * ROW}px` }} /></tr>}
          {sorted.slice(first, last).map((row, number) => (
            <tr key={id(row)} aria-rowindex={first + number + 2}>
              {columns.map((column) => (
                <td key={column.name} class={column.number ? "number" : ""}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
          {last < sorted.length && (
            <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${(sorted.length - last) * ROW}px` }} /></tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function sortOf<T>(column: Column<T>, order: { column: string; down: boolean }): "ascending" | "descending" | undefined {
  if (column.by === undefined || order.column !== column.name) return undefined;
  return order.down ? "descending" : "ascending";
}

function sort<T>(rows: readonly T[], columns: Column<T>[], order: { column: string; down: boolean }): readonly T[] {
  const by = columns.find((column) => column.name === order.column)?.by;
  if (by === undefined) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [by(a), by(b)];
    return sign * (left < right ? -1 : left > right ? 1 : 0);
  });
}
