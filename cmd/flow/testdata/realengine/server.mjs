// A server on a real llama.cpp, for flow's tests: OpenAI completions over SSE, with usage in the last frame.
//
//   FLOW_NODE_LLAMA=FOLDER node server.mjs --model tiny.gguf --port 8080 [--threads 1] [--batch 512] [--ctx 2048]
//
// FOLDER holds node_modules with node-llama-cpp. The text is what the model says token by token, so that a
// frame is a token; the model of these tests has random weights.
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const option = (fallback) => ({ type: "string", default: fallback });
const { values: given } = parseArgs({
	options: { model: option(""), port: option("0"), threads: option("1"), batch: option("512"), ctx: option("2048") },
});
const entry = path.join(process.env.FLOW_NODE_LLAMA, "node_modules", "node-llama-cpp", "dist", "index.js");
const { getLlama } = await import(pathToFileURL(entry));

const threads = Number(given.threads);
const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath: given.model });
const context = await model.createContext({ contextSize: Number(given.ctx), sequences: 1, threads, batchSize: Number(given.batch) });
const sequence = context.getSequence({ checkpoints: { max: 0 } });
console.error(`real: n_batch = ${context.batchSize}`);
console.error(`real: n_threads = ${threads}`);

const totals = { tokens: 0, running: 0 };
let turn = Promise.resolve(); // one sequence: requests wait for each other

async function read(request) {
	let body = "";
	for await (const chunk of request) body += chunk;
	return JSON.parse(body);
}

async function complete(ask, response) {
	const prompt = model.tokenize(ask.prompt);
	const most = ask.max_tokens ?? 16;
	const frame = (more) => response.write(`data: ${JSON.stringify({ object: "text_completion", ...more })}\n\n`);
	const choice = (text, finish) => ({ choices: [{ index: 0, text, finish_reason: finish }] });
	response.writeHead(200, { "content-type": "text/event-stream" });
	await sequence.clearHistory();
	let made = 0;
	for await (const token of sequence.evaluate(prompt, { temperature: ask.temperature ?? 0 })) {
		made++;
		totals.tokens++;
		frame(choice(model.detokenize([token]), null));
		if (made >= most || response.destroyed) break;
	}
	frame(choice("", "length"));
	const usage = { prompt_tokens: prompt.length, completion_tokens: made, total_tokens: prompt.length + made, prompt_tokens_details: { cached_tokens: 0 } };
	if (ask.stream_options?.include_usage) frame({ choices: [], usage });
	console.error(`real: generated ${made}`);
	response.end("data: [DONE]\n\n");
}

http.createServer(async (request, response) => {
	const json = (value) => {
		response.setHeader("content-type", "application/json");
		response.end(JSON.stringify(value));
	};
	switch (request.url) {
		case "/health":
			return json({ status: "ok" });
		case "/metrics":
			return response.end(`# TYPE real_tokens_total counter\nreal_tokens_total ${totals.tokens}\n# TYPE real_running gauge\nreal_running ${totals.running}\n`);
		case "/tokenize": {
			const ask = await read(request);
			return json({ tokens: model.tokenize(ask.content) });
		}
		case "/v1/completions": {
			const ask = await read(request);
			totals.running++;
			turn = turn.then(() => complete(ask, response)).catch((error) => response.destroy(error)).finally(() => totals.running--);
			return turn;
		}
	}
	response.statusCode = 404;
	json({ error: { code: 404, message: `no ${request.url}` } });
}).listen(Number(given.port), "127.0.0.1", () => console.error(`real: listening on ${given.port}`));
