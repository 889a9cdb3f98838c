// Sends one agent's trace with OpenTelemetry's own SDK: node send.mjs PACKAGES URL TOKEN COMPRESSION
import { createRequire } from "node:module";

const [packages, url, token, compression] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { context, trace, SpanStatusCode } = require("@opentelemetry/api");
const { SimpleSpanProcessor, TracerProvider } = require("@opentelemetry/sdk-trace");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");

const exporter = new OTLPTraceExporter({ url, headers: { Authorization: `Bearer ${token}` }, compression });
const results = [];
const { export: send } = exporter;
exporter.export = (spans, done) =>
  send.call(exporter, spans, (result) => {
    results.push({ code: result.code, error: result.error?.message });
    done(result);
  });
const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const tracer = provider.getTracer("judge");

const message = (role, content) => JSON.stringify([{ role, parts: [{ type: "text", content }] }]);
const root = tracer.startSpan("invoke_agent coder", {
  attributes: {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.input.messages": message("user", "Fix the login"),
  },
});
const inside = trace.setSpan(context.active(), root);
const tool = (name, attributes) =>
  tracer.startSpan(
    `execute_tool ${name}`,
    { attributes: { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, ...attributes } },
    inside,
  );
const good = tool("read_file", { "gen_ai.tool.call.arguments": '{"file_path":"login.py"}', "gen_ai.tool.call.id": "c1" });
good.end();
const bad = tool("shell", { "gen_ai.tool.call.arguments": '{"command":"pytest"}', "error.type": "timeout" });
bad.setStatus({ code: SpanStatusCode.ERROR, message: "too slow" });
bad.end();
root.setAttribute("gen_ai.output.messages", message("assistant", "Fixed."));
root.setAttribute("gen_ai.usage.output_tokens", 7);
root.end();
await provider.forceFlush().catch(() => {}); // each result says why
await provider.shutdown().catch(() => {});
console.log(JSON.stringify({ traceId: root.spanContext().traceId, results }));
