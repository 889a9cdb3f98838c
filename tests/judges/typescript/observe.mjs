// What both TypeScript clients do to a desk, and what they saw, as one JSON line on stdout.
import { createRequire } from "node:module";
import { join } from "node:path";

/** Loads a module of the installed judges; their folder is named by the caller. */
export const judge = createRequire(join(process.env.JUDGES, "package.json"));

export const WATCHED = "test://watched-resource";

/** Runs `work(transport, target)` with the script's arguments and prints what it returns. */
export async function main(work) {
  const [transport, target, ...rest] = process.argv.slice(2);
  console.log(JSON.stringify(await work(transport, target, ...rest)));
  process.exit(0);
}

/** The parameters of a stdio transport from a command line given as JSON. */
export function spawned(target) {
  const [command, ...args] = JSON.parse(target);
  return { command, args, stderr: "ignore" };
}

/** The form's only field, answered with a name made from it. */
export function answer(request) {
  const [field] = Object.keys(request.params.requestedSchema.properties);
  return { action: "accept", content: { [field]: `my ${field}` } };
}

async function refusal(call) {
  try {
    return { answered: await call };
  } catch (error) {
    return { code: error.code, data: error.data ?? null };
  }
}

async function cancelled(client) {
  const controller = new AbortController();
  const onprogress = () => controller.abort("enough");
  const call = client.callTool(
    { name: "test_hang", arguments: {} },
    ...client.options({ signal: controller.signal, onprogress }),
  );
  await call.then(
    () => {
      throw new Error("a cancelled call was answered");
    },
    () => undefined,
  );
  const result = await client.callTool({ name: "test_await_cancelled", arguments: {} });
  return JSON.parse(result.content[0].text);
}

/** Each step is released by a call of its own, so that no progress can share a packet with the answer. */
async function progressed(client) {
  const seen = [];
  const onprogress = ({ progress }) => {
    seen.push(progress);
    client.callTool({ name: "test_release", arguments: {} });
  };
  await client.callTool({ name: "test_gated_progress", arguments: {} }, ...client.options({ onprogress }));
  return seen;
}

/** Every behaviour, once; `client.options(o)` gives callTool's trailing parameters in that SDK's order. */
export async function observe(client, changed) {
  const call = (name, args = {}) => client.callTool({ name, arguments: args });
  const { tools } = await client.listTools();
  const seen = {
    version: client.version(),
    server: client.getServerVersion()?.name,
    tools: tools.map((tool) => tool.name),
    text: await call("test_simple_text"),
    structured: await call("test_structured", { n: 1.5 }),
    refusal: await call("test_error_handling"),
    invalid: await call("test_structured", { n: "one" }),
    unknown: await refusal(call("no_such_tool")),
    resource: await client.readResource({ uri: "test://template/42/data" }),
    missing: await refusal(client.readResource({ uri: "test://nothing" })),
    prompt: await client.getPrompt({
      name: "test_prompt_with_arguments",
      arguments: { arg1: "one", arg2: "two" },
    }),
    progress: await progressed(client),
    elicited: await call("test_elicitation", { message: "Who are you?" }),
    rounds: await call("test_input_required_result_multi_round"),
    cancelled: await cancelled(client),
  };
  await client.follow(WATCHED);
  await call("test_touch_watched");
  seen.changed = await changed;
  await client.close();
  return seen;
}
