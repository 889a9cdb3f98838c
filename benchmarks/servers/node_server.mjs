// The echo tool on the official TypeScript server; `benchmarks.lineup` puts this file beside its packages.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
} from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const schema = z.object({ n: z.number() });

function build() {
  const server = new McpServer({ name: "node", version: "1" });
  server.registerTool(
    "echo",
    {
      description: "Returns the number it is given.",
      inputSchema: schema,
      outputSchema: schema,
      annotations: { readOnlyHint: true },
    },
    async ({ n }) => ({ content: [{ type: "text", text: JSON.stringify({ n }) }], structuredContent: { n } }),
  );
  return server;
}

const sessions = new Map();

async function session(req) {
  const known = sessions.get(req.headers["mcp-session-id"]);
  if (known) return known;
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await build().connect(transport);
  return transport;
}

function serveHttp(port) {
  const modern = toNodeHandler(createMcpHandler(build, { legacy: "reject" }));
  const validHost = localhostHostValidation();
  const validOrigin = localhostOriginValidation();
  createServer(async (req, res) => {
    if (!validHost(req, res) || !validOrigin(req, res)) return;
    if (req.headers["mcp-protocol-version"] === "2026-07-28") await modern(req, res);
    else await (await session(req)).handleRequest(req, res);
  }).listen(port, "127.0.0.1");
}

if (process.argv[2] === "stdio") serveStdio(build);
else serveHttp(Number(process.env.PORT));
