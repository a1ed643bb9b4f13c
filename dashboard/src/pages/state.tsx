// The state browser.

import type { JSX } from "preact";
import { Empty, Page } from "../components/basics.tsx";

export function StatePage({ given }: { given: string }): JSX.Element {
  return (
    <Page title="State">
      <Empty>
        The command line looks into checkpoints and savepoints: <code>millstream state {given === "" ? "PATH" : given}</code>
      </Empty>
    </Page>
  );
}
