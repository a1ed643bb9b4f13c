import assert from "node:assert/strict";
import { test } from "node:test";
import { canChallenge, nameOfToken, newNonce, proof } from "../src/challenge.ts";
import { mainLog } from "../src/logfiles.ts";
import { OPERATOR, packageClass, packageOf, PYTHON, RUNTIME, samplesByPackage } from "../src/flamekinds.ts";
import { byName, bytes, count, duration, lag, rate, stateName, watermark } from "../src/format.ts";
import { edgeKey, NODE, place } from "../src/layout.ts";
import { metricValue, readableMetric } from "../src/metricnames.ts";
import { inParts, valuesOf } from "../src/metrics.ts";
import { overlaid } from "../src/overlaps.ts";
import { pythonType } from "../src/pythontypes.ts";
import { edgeRates, ratesOf, sourceRate, UNKNOWN, withSample, type Sample } from "../src/rates.ts";
import { EventParser } from "../src/sse.ts";

test("events are parsed whatever chunks they arrive in", () => {
  const text = ': a comment\n\nevent: update\ndata: {"a":1}\n\ndata: two\ndata: lines\n\n';
  for (let at = 0; at <= text.length; at += 1) {
    const parser = new EventParser();
    const found = [...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))];
    assert.deepEqual(found, [
      { event: "update", data: '{"a":1}' },
      { event: "message", data: "two\nlines" },
    ]);
  }
});

test("states in words", () => {
  assert.equal(stateName("RUNNING"), "running");
  assert.equal(stateName("IN_PROGRESS"), "in progress");
  assert.equal(stateName("CANCELED"), "cancelled");
  assert.equal(stateName("canceling"), "cancelling");
  assert.equal(stateName("CANCELLING"), "cancelling");
});

test("figures", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1536), "1.50 KB");
  assert.equal(bytes(1023), "1023 B");
  assert.equal(count(9999), "9,999");
  assert.equal(count(12_345), "12.3 k");
  assert.equal(count(1_234_567), "1.23 M");
  assert.equal(rate(null), "–");
  assert.equal(rate(0), "0/s");
  assert.equal(duration(-1), "–");
  assert.equal(duration(61_000), "1 min 1 s");
  assert.equal(duration(90_061_000), "1 d 1 h");
  assert.equal(watermark(-(2 ** 63)), "none yet");
  assert.equal(watermark(2 ** 63 - 1), "end of input");
  assert.equal(watermark(0), "1970-01-01 00:00:00 UTC");
});

function sample(at: number, records: number, busy: number): Sample {
  const metrics = {
    "read-bytes": 0, "write-bytes": 0, "read-records": records, "write-records": 0,
    "accumulated-backpressured-time": 0, "accumulated-idle-time": at - busy, "accumulated-busy-time": busy,
  };
  return { at, totals: new Map([["v", metrics]]) };
}

test("rates are differences over the last seconds", () => {
  let samples: Sample[] = [];
  for (const second of [0, 1, 2, 3]) samples = withSample(samples, sample(second * 1000, second * 100, second * 250));
  const rates = ratesOf(samples, "v");
  assert.equal(rates.recordsIn, 100);
  assert.equal(rates.busy, 0.25);
  assert.deepEqual(ratesOf(samples.slice(0, 2), "v"), UNKNOWN);
  const early = sample(800, 0, 0); // what the page opened with: the report of 0 s, seen just before that of 1 s
  assert.equal(ratesOf([early, ...samples.slice(1)], "v").recordsIn, 100);
  assert.deepEqual(ratesOf(samples, "another"), UNKNOWN);
  assert.deepEqual(ratesOf([sample(0, 5, 1), sample(1000, 5, 1), { ...sample(1000, 5, 1), at: 1400 }], "v"), UNKNOWN); // of one report
});

test("after a restart, totals begin at 0 and no rate is negative", () => {
  const samples = [sample(0, 400, 5), sample(1000, 500, 10), sample(2000, 3, 20)];
  assert.equal(ratesOf(samples, "v").recordsIn, 0);
});

test("the same response twice is one sample", () => {
  const one = withSample([], sample(1000, 1, 1));
  assert.equal(withSample(one, sample(1000, 1, 1)), one);
});

test("vertices do not overlap, and edges lead to the right", () => {
  const nodes = Array.from({ length: 40 }, (_, number) => ({
    id: `n${number}`, parallelism: 1, description: "",
    inputs: number < 4 ? [] : [{ id: `n${number % 4}`, ship_strategy: "HASH" }, { id: `n${number - 4}`, ship_strategy: "FORWARD" }],
  }));
  const placed = place(nodes);
  for (const a of placed.nodes) {
    for (const b of placed.nodes) {
      const apart = Math.abs(a.x - b.x) >= NODE.width || Math.abs(a.y - b.y) >= NODE.height;
      assert.ok(a === b || apart, `${a.id} lies on ${b.id}`);
    }
  }
  const at = new Map(placed.nodes.map((node) => [node.id, node.x]));
  for (const edge of placed.edges) assert.ok((at.get(edge.source) ?? 0) < (at.get(edge.target) ?? 0));
});

test("metrics are requested in parts that fit into a path, and none is left out", () => {
  const ids = Array.from({ length: 95 }, (_, number) => `Status.${"x".repeat(number * 2)}.${number} %`);
  const parts = inParts("/jobmanager/metrics", ids);
  assert.deepEqual(parts.flat(), ids);
  assert.ok(parts.every((part) => part.length <= 40 && valuesOf("/jobmanager/metrics", part).length < 4000));
  assert.deepEqual(inParts("/jobmanager/metrics", []), []);
  assert.deepEqual(inParts("/m", ["y".repeat(5000), "z"]), [["y".repeat(5000)], ["z"]]);
  assert.deepEqual(["10.a", "9.a", "9.B"].sort(byName), ["9.a", "9.B", "10.a"]);
});

test("the rate of an edge is that of an end which has no other edge", () => {
  const node = (id: string, ...from: string[]) => ({ id, parallelism: 1, description: "", ...(from.length > 0 ? { inputs: from.map((one) => ({ id: one, ship_strategy: "HASH" })) } : {}) });
  const rates = new Map(["a", "b", "c", "d"].map((id, number) => [id, { ...UNKNOWN, recordsIn: 10 * number, recordsOut: 100 * number }]));
  const nodes = [node("a"), node("b"), node("c", "a"), node("d", "a", "b")];
  const byTotals: [string, number][] = [[edgeKey("c", 0), 20], [edgeKey("d", 1), 100]];
  assert.deepEqual(edgeRates(nodes, rates, new Map()), new Map(byTotals)); // the edge from a to d has to be measured
  const measured = new Map([[edgeKey("d", 0), 7], [edgeKey("c", 0), 8]]);
  assert.deepEqual(edgeRates(nodes, rates, measured), new Map([...byTotals, [edgeKey("d", 0), 7]]));
});

test("an edge has no rate while its source reports nothing", () => {
  const nodes = [{ id: "a", parallelism: 1, description: "" }, { id: "b", parallelism: 1, description: "", inputs: [{ id: "a", ship_strategy: "HASH" }] }];
  assert.deepEqual(edgeRates(nodes, new Map([["a", UNKNOWN], ["b", UNKNOWN]]), new Map([[edgeKey("b", 0), 252]])), new Map());
});

test("the rate of sources is what they emit, before what is chained to them", () => {
  const rates = new Map([["a", { ...UNKNOWN, recordsIn: 188, recordsOut: 63 }], ["b", { ...UNKNOWN, recordsIn: 12, recordsOut: 12 }]]);
  assert.equal(sourceRate([{ id: "a" }, { id: "b" }, { id: "c" }], rates), 200);
  assert.equal(sourceRate([{ id: "c" }], rates), null);
});

test("the lag of event time", () => {
  const now = Date.UTC(2026, 0, 1);
  assert.equal(lag(now - 3000, now), "lag 3 s");
  assert.equal(lag(now - 1234, now), "lag 1.2 s");
  assert.equal(lag(now - 754_321, now), "lag 12 min 34 s");
  assert.equal(lag(now + 5000, now), "5.00 s ahead");
  assert.equal(lag(49, now), "event time 1970-01-01");
  assert.equal(lag(-(2 ** 63), now), "no watermark yet");
  assert.equal(lag(2 ** 63 - 1, now), "end of input");
});

test("types as a Python programmer writes them", () => {
  assert.equal(pythonType("Tuple2<Long, String>"), "tuple[int, str]");
  assert.equal(pythonType("Map<String, List<Tuple3<Integer, Double, Boolean>>>"), "dict[str, list[tuple[int, float, bool]]]");
  assert.equal(pythonType("PickledByteArray → Bytes"), "object (pickled) → bytes");
  assert.equal(pythonType("Order(Date: Date, Long: Long, total: BigDecimal)"), "Order(Date: date, Long: int, total: Decimal)");
  assert.equal(pythonType("Row(at: Instant, MapReduce: String)"), "Row(at: datetime, MapReduce: str)");
  assert.equal(pythonType("–"), "–");
});

test("metrics have names and units that can be read", () => {
  const id = "faeb73617f50a137e54d1d6e4bbc9216";
  const vertices = new Map([[id, "Counts"]]);
  const label = (metric: string): string => {
    const { of, name, subtask } = readableMetric(metric, vertices);
    return [subtask ?? "all", of, name].join("|");
  };
  assert.equal(label("Status.JVM.Memory.Heap.Used"), "all||Memory in use");
  assert.equal(label("slot.3.Status.JVM.CPU.Load"), "all|slot 3|CPU load");
  assert.equal(label(`2.edge.${id}-0.numRecordsOutPerSecond`), "2|edge to Counts|Records out per second");
  assert.equal(label(`2.edge.${id}-1.outputQueueLength`), "2|edge to Counts (input 2)|Output queue");
  assert.equal(label(`0.edge.${"1".repeat(32)}-0.outputCredit`), "0|edge to 11111111|Credit");
  assert.equal(label("11.Latest_of_each_key.state.reduce.numEntries"), "11|Latest of each key · state reduce|Entries");
  assert.equal(label("0.Source__Numbers.numRecordsOut"), "0|Source: Numbers|Records out");
  assert.equal(label("0.buffers.inPoolUsage"), "0||Input buffers in use");
  assert.equal(label("0.My_map.my_counter"), "0|My map|my_counter");
  assert.equal(label("0.My_map.size_p99"), "0|My map|size, 99th percentile");
  for (const name of ["Status.JVM.GarbageCollector.All.TimeMsPerSecond", `latency.source_id.${id}.operator_id.${id}.operator_subtask_index.0.latency_p95`]) {
    assert.doesNotMatch(label(name), /JVM|[0-9a-f]{32}/);
  }
  assert.equal(metricValue("0.numRecordsInPerSecond", "456.280311957654"), "456/s");
  assert.equal(metricValue("0.busyTimeMsPerSecond", "999.975576282114"), "100 %");
  assert.equal(metricValue("Status.JVM.CPU.Load", "0.00861192734347343"), "0.9 %");
  assert.equal(metricValue("Status.JVM.CPU.Time", "14872454571"), "14.9 s");
  assert.equal(metricValue("Status.JVM.Memory.Heap.Used", "101998592"), "97.3 MB");
  assert.equal(metricValue("0.checkpointStartDelayNanos", "3000000"), "3 ms");
  assert.equal(metricValue("0.numBytesOutPerSecond", "1493.875"), "1.46 KB/s");
  assert.equal(metricValue("0.currentInputWatermark", "-9223372036854775808"), "none yet");
  assert.equal(metricValue("0.a.numKeysSampled", "5423.375"), "5423");
  assert.equal(metricValue("x", undefined), "–");
});

test("equal lines are distinguishable", () => {
  const line = [10, 20, 30, null, 40];
  assert.deepEqual(overlaid([line, [...line], [1, 2, 3, 4, 5], [...line]]), [0, 1, 0, 2]);
  assert.deepEqual(overlaid([[0, 0], [0, 0]]), [0, 1]);
  assert.deepEqual(overlaid([[1, null], [null, 1]]), [0, 0]);
  assert.deepEqual(overlaid([]), []);
});

test("frames of a flame graph by their package", () => {
  const of = (name: string): string => packageOf(name, 3);
  assert.equal(of("paced (flowing.py:9)"), "flowing.py");
  assert.equal(of("Pricing.discount (job.py:3)"), "job.py");
  assert.equal(of("shop.pricing.discount (pricing.py:42)"), "shop");
  assert.equal(of("scored.<locals>.<genexpr> (job.py:40)"), "job.py");
  assert.equal(of("json.decoder.JSONDecoder.decode (decoder.py:337)"), PYTHON);
  assert.equal(of("runpy._run_code (<frozen runpy>:88)"), PYTHON);
  assert.equal(of("millstream.core.records.handover.Handover.mapped (handover.py:64)"), RUNTIME);
  assert.equal(of("[taskmanager.worker.network.outbox.Outbox.put]"), RUNTIME);
  assert.equal(packageOf("Paced", 1), OPERATOR);
  const leaf = (name: string, value: number) => ({ name, value, children: [] });
  const root = { name: "root", value: 10, children: [{ name: "Paced", value: 10, children: [{ ...leaf("f (a.py:1)", 8), children: [leaf("json.loads (x.py:1)", 3)] }, leaf("[waiting for input]", 2)] }] };
  assert.deepEqual(samplesByPackage(root), [["a.py", 5], [PYTHON, 3], [RUNTIME, 2]]);
  assert.notEqual(packageClass("shop"), packageClass(RUNTIME));
});

test("a log with something in it is opened first", () => {
  const file = (name: string, size: number) => ({ name, size, mtime: 0 });
  assert.equal(mainLog([file("a.log", 0), file("b.log", 5), file("b.out", 9)])?.name, "b.log");
  assert.equal(mainLog([file("tm-1.0ab.slot-0.log", 5), file("tm-1.log", 7)])?.name, "tm-1.log");
  assert.equal(mainLog([file("tm-1.0ab.slot-0.log", 5), file("tm-1.log", 0)])?.name, "tm-1.0ab.slot-0.log");
  assert.equal(mainLog([file("a.log", 0), file("b.out", 9)])?.name, "b.out");
  assert.equal(mainLog([file("a.log", 0), file("b.log", 0)])?.name, "a.log");
  assert.equal(mainLog([]), undefined);
});

test("proofs are those that the server computes", async () => {
  const nonce = "00112233445566778899aabbccddeeff";
  const ofSecret = `submit.1800000000.${"ab".repeat(32)}`;
  assert.equal(canChallenge(), true);
  assert.equal(await nameOfToken("lookerlooker"), "496f9fae853b7d7f");
  assert.equal(await nameOfToken(ofSecret), "submit.1800000000");
  assert.equal(await proof("lookerlooker", nonce), "290b9ee4d6061ce18bcc310dd6b1e7b44bcbc711cbf70654390b59302f41f6ae");
  assert.equal(await proof(ofSecret, nonce), "eff70e905429542e4069318b6664355d4782885defed6ff30efdccdcad90c95b");
  assert.match(newNonce(), /^[0-9a-f]{32}$/);
  assert.notEqual(newNonce(), newNonce());
});

test("the token is sent only to a server that knows it", async () => {
  const stored = new Map<string, string>();
  const sessionStorage = {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value),
    removeItem: (key: string) => void stored.delete(key),
  };
  const requests: { path: string; headers: Record<string, string> }[] = [];
  let respond: (path: string) => Promise<Response> = () => Promise.reject(new Error("nothing listens"));
  const fetch = (path: string, options: { headers?: Record<string, string> } = {}): Promise<Response> => {
    requests.push({ path, headers: options.headers ?? {} });
    return respond(path);
  };
  Object.assign(globalThis, { sessionStorage, fetch, location: { hash: "#token=secret-token", pathname: "/" } });
  Object.assign(globalThis, { history: { replaceState: () => undefined } });
  const { authorization, refusal, token } = await import("../src/session.ts");
  const nonceOf = (path: string) => new URL(path, "http://here").searchParams.get("nonce") ?? "";

  await assert.rejects(authorization());
  respond = () => Promise.resolve(Response.json({ proof: "0".repeat(64) }));
  await assert.rejects(authorization(), /has not proven/);
  let first = "";
  respond = async (path) => Response.json({ proof: await proof("secret-token", (first ||= nonceOf(path))) });
  assert.deepEqual(await authorization(), { Authorization: "Bearer secret-token" });
  await assert.rejects(authorization(), /has not proven/, "a proof counts for one number");
  assert.equal(token.value, "secret-token");
  respond = () => Promise.resolve(Response.json({ errors: [] }, { status: 404 }));
  await assert.rejects(authorization(), /not valid/);
  assert.equal(token.value, "");
  assert.notEqual(refusal.value, "");
  assert.deepEqual(await authorization(), {});

  assert.equal(requests.length, 5);
  for (const { path, headers } of requests) {
    assert.match(path, /^\/challenge\?/);
    assert.deepEqual(headers, {});
    assert.ok(!path.includes("secret-token"));
  }
});
