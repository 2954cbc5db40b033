// upload.mjs URL: what Node's fetch sees of tutorial/20-upload.
import { strict as assert } from "node:assert";

const [url] = process.argv.slice(2);
const half = new Uint8Array(1500000).fill(113);

// fetch with a stream for its body sends chunks
const inPieces = () => new ReadableStream({
    start(to) {
        to.enqueue(half);
        to.enqueue(half);
        to.close();
    },
});

async function ask(target, options = {}) {
    const reply = await fetch(url + target, { signal: AbortSignal.timeout(30000), ...options });
    return { reply, body: Buffer.from(await reply.arrayBuffer()) };
}

let { reply, body } = await ask("/files/node", { method: "PUT", body: half });
assert.equal(reply.status, 201);
assert.equal(body.toString(), "1500000 bytes from 127.0.0.1\n");
({ reply, body } = await ask("/files/node", { method: "PUT", body: inPieces(), duplex: "half" }));
assert.equal(reply.status, 201);
assert.equal(body.toString(), "3000000 bytes from 127.0.0.1\n");
({ reply, body } = await ask("/files/node"));
assert.equal(reply.status, 200);
assert.equal(body.length, 3000000);
assert.ok(body.every((byte) => byte === 113));
({ reply, body } = await ask("/files/node", { method: "HEAD" }));
assert.equal(reply.headers.get("content-length"), "3000000");
({ reply, body } = await ask("/files/node", { headers: { Range: "bytes=-5" } }));
assert.equal(reply.status, 206);
assert.equal(body.toString(), "qqqqq");
({ reply, body } = await ask("/upper", { method: "POST", body: "some letters" }));
assert.equal(body.toString(), "SOME LETTERS");

// Fifty at once, on connections that are kept.
const all = await Promise.all(Array.from({ length: 50 }, (_, i) => ask("/upper", { method: "POST", body: `letter ${i}` })));
all.forEach(({ body }, i) => assert.equal(body.toString(), `LETTER ${i}`));

// One that is given up in the middle disturbs nobody.
const abort = new AbortController();
const begun = await fetch(`${url}/files/node`, { signal: abort.signal });
const reader = begun.body.getReader();
await reader.read();
abort.abort();
await assert.rejects(async () => { while (!(await reader.read()).done); });
({ reply } = await ask("/files/nothing"));
assert.equal(reply.status, 404);
