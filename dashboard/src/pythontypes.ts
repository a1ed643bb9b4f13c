// Types of state as a Python programmer writes them. The REST API has them in Flink's notation. Pure.

const NAMES: Record<string, string> = {
  String: "str",
  Boolean: "bool",
  Byte: "int",
  Short: "int",
  Integer: "int",
  Int: "int",
  Long: "int",
  BigInteger: "int",
  Float: "float",
  Double: "float",
  BigDecimal: "Decimal",
  Bytes: "bytes",
  Instant: "datetime",
  Timestamp: "datetime",
  Date: "date",
  Time: "time",
  List: "list",
  Map: "dict",
  PickledByteArray: "object (pickled)",
};

/** `Tuple2<Long, List<String>>` as `tuple[int, list[str]]`; names of dataclasses and their fields stay as they are. */
export function pythonType(text: string): string {
  const renamed = text.replace(/[A-Za-z_]\w*(?!\w)(?!\s*:)/g, (name) => (/^Tuple\d+$/.test(name) ? "tuple" : Object.hasOwn(NAMES, name) ? (NAMES[name] ?? name) : name));
  return renamed.replaceAll("<", "[").replaceAll(">", "]");
}
