// Parses server-sent events from the chunks of a stream. Pure: a parser holds what is not complete yet.

export interface ServerEvent {
  event: string;
  data: string;
}

export class EventParser {
  private rest = "";

  /** The events that are complete with this piece. */
  push(piece: string): ServerEvent[] {
    const blocks = (this.rest + piece).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((event) => event !== null);
  }
}

function parseBlock(block: string): ServerEvent | null {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length > 0 ? { event, data: data.join("\n") } : null;
}
