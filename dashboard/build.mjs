// Bundles the dashboard into the folder that is its argument: index.html, and assets/ with hashes in their names, each
// beside its compressed form. Nothing in it comes from elsewhere, at build time or in the browser, but from npm.

import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../dispatcher/millstream/dispatcher/dashboard/built"));
const assets = join(out, "assets");

rmSync(out, { recursive: true, force: true });
mkdirSync(assets, { recursive: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  entryNames: "app-[hash]",
  assetNames: "[name]-[hash]",
  outdir: assets,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  metafile: true,
  logLevel: "warning",
});
const made = Object.entries(result.metafile.outputs);
const script = made.find(([, output]) => output.entryPoint === "src/main.tsx");
const style = script[1].cssBundle;
copyFileSync(join(here, "src/favicon.svg"), join(assets, "favicon.svg"));
const page = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("{{style}}", `/assets/${basename(style)}`)
  .replace("{{script}}", `/assets/${basename(script[0])}`);
writeFileSync(join(out, "index.html"), page);
for (const name of readdirSync(assets)) {
  writeFileSync(join(assets, `${name}.gz`), gzipSync(readFileSync(join(assets, name)), { level: 9 }));
}
