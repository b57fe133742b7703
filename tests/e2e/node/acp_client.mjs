// A client on the official TypeScript SDK of ACP, which checks every message against its schema. Drives the real program
// through unsaved text, an approval, a form, an MCP server, options, a cancel and the methods of sessions, and prints what
// it saw as JSON. Shares no code with the server or its tests.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [folder, mcpServer, python, ...command] = process.argv.slice(2);
const agent = spawn(python, command, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((done) => agent.on("exit", (code) => done(code)));
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const { agent: ask, client: asked } = acp.methods;
const texts = { [`${folder}/greeting.txt`]: "Helo wörld 😀, said the unsaved buffer\n" };
const seen = { updates: [], permissions: [], forms: [] };
const kinds = (kind) => seen.updates.filter(({ sessionUpdate }) => sessionUpdate === kind);
const said = () => kinds("agent_message_chunk").map(({ content }) => content.text).join("");
const until = async (holds) => {
  while (!holds()) await new Promise((again) => setTimeout(again, 10));
};

const app = acp
  .client({ name: "foreign" })
  .onNotification(asked.session.update, ({ params }) => void seen.updates.push(params.update))
  .onRequest(asked.session.requestPermission, ({ params }) => {
    seen.permissions.push({ title: params.toolCall.title, kinds: params.options.map(({ kind }) => kind) });
    const wanted = params.options.find(({ kind }) => kind === "allow_once") ?? params.options[0];
    return { outcome: { outcome: "selected", optionId: wanted.optionId } };
  })
  .onRequest(asked.fs.readTextFile, ({ params }) => ({ content: texts[params.path] ?? readFileSync(params.path, "utf-8") }))
  .onRequest(asked.fs.writeTextFile, ({ params }) => {
    texts[params.path] = params.content;
    return {};
  })
  .onRequest(asked.elicitation.create, ({ params }) => {
    seen.forms.push(params.message);
    return { action: "accept", content: { answer: "blue" } };
  });

const result = await app.connectWith(stream, async (connection) => {
  const hello = await connection.request(ask.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, elicitation: { form: {} } },
  });
  const tiny = { name: "tiny", command: python, args: [mcpServer], env: [] };
  const made = await connection.request(ask.session.new, { cwd: folder, mcpServers: [tiny] });
  const { sessionId } = made;
  const prompt = (text) => ({ sessionId, prompt: [{ type: "text", text }] });
  const edited = await connection.request(ask.session.prompt, prompt("#edit# please"));
  const options = await connection.request(ask.session.setConfigOption, { sessionId, configId: "mode", value: "auto" });
  const used = await connection.request(ask.session.prompt, prompt("#tools# please"));
  const told = said();

  const stop = new AbortController();
  seen.updates.length = 0;
  const running = connection.request(ask.session.prompt, prompt("#slow# please"), { cancellationSignal: stop.signal });
  await until(() => said());
  stop.abort();
  const cancelled = await running.then(({ stopReason }) => stopReason, ({ code }) => code);

  await connection.request(ask.session.close, { sessionId });
  seen.updates.length = 0;
  await connection.request(ask.session.resume, { sessionId, cwd: folder, mcpServers: [] });
  const resumed = kinds("user_message_chunk").length;
  await connection.request(ask.session.load, { sessionId, cwd: folder, mcpServers: [] });
  const loaded = kinds("user_message_chunk").map(({ content }) => content.text);
  await connection.request(ask.session.delete, { sessionId });
  const { sessions } = await connection.request(ask.session.list, {});
  await connection.request(ask.logout, {});
  return {
    version: hello.protocolVersion,
    methods: hello.authMethods.length > 0,
    modes: made.modes.availableModes.map(({ id }) => id),
    edited: edited.stopReason,
    options: options.configOptions.map(({ id, currentValue }) => [id, currentValue]),
    used: used.stopReason,
    said: told,
    cancelled,
    resumed,
    loaded,
    sessions: sessions.length,
  };
});
agent.stdin.end();
console.log(
  JSON.stringify({ ...result, text: texts[`${folder}/greeting.txt`], ...seen, updates: undefined, code: await exited }),
);
