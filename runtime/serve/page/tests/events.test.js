import assert from "node:assert/strict";
import test from "node:test";

import { parseEvents } from "../events.js";

test("events may be cut anywhere", () => {
  const stream = ": hello\n\nevent: job\ndata: {\"id\":\"1-1\"}\n\nevent:changed\ndata:\n\n";
  const expected = [
    { kind: undefined, data: undefined }, { kind: "job", data: "{\"id\":\"1-1\"}" }, { kind: "changed", data: "" },
  ];
  for (let cut = 0; cut <= stream.length; cut++) {
    const first = parseEvents(stream.slice(0, cut));
    const second = parseEvents(first.rest + stream.slice(cut));
    assert.deepEqual([...first.events, ...second.events], expected, `cut at ${cut}`);
    assert.equal(second.rest, "");
  }
});
