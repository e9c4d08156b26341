// An OpenClaw plugin that has each tool call judged before it is made, also those of a program.
// Whatever goes wrong blocks the call; OpenClaw itself does so if this takes more than 15 seconds.
import { spawn } from "node:child_process";

const COMMAND = process.env.MNEMOGATE_COMMAND ?? "mnemogate";
const WAIT_MS = 12_000;
// These read, and change nothing that a host reads again.
const READERS = new Set(["read", "ls", "memory_search", "memory_get", "tool_search", "tool_describe"]);

function judged(call) {
  return new Promise((resolve, reject) => {
    // The hook reads and writes the JSON of Claude Code's hooks; the tools are OpenClaw's own.
    const child = spawn(COMMAND, ["hook", "claude-code"], { stdio: ["pipe", "pipe", "ignore"] });
    const late = setTimeout(() => child.kill("SIGKILL"), WAIT_MS);
    const parts = [];
    child.stdout.on("data", (part) => parts.push(part));
    child.stdin.on("error", () => {}); // the exit code says what happened
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(late);
      if (code !== 0) {
        reject(new Error(`the hook ended with ${code ?? "a signal"}`));
        return;
      }
      resolve(Buffer.concat(parts).toString("utf8"));
    });
    child.stdin.end(JSON.stringify(call));
  });
}

function reasonIn(answer) {
  if (answer.trim() === "") {
    return null;
  }
  const denied = JSON.parse(answer).hookSpecificOutput;
  if (denied?.permissionDecision !== "deny") {
    throw new Error("the hook's answer cannot be read");
  }
  return denied.permissionDecisionReason;
}

export default {
  id: "mnemogate",
  name: "Mnemogate",
  description: "Has tool calls judged by a Mnemogate sidecar before they are made.",
  register(api) {
    const folder = api.config?.agents?.defaults?.workspace ?? "";
    api.on(
      "before_tool_call",
      async (event) => {
        if (READERS.has(event.toolName)) {
          return undefined;
        }
        try {
          const answer = await judged({
            hook_event_name: "PreToolUse",
            tool_name: event.toolName,
            tool_input: event.params,
            tool_use_id: event.toolCallId ?? "",
            cwd: folder,
          });
          const reason = reasonIn(answer);
          return reason === null ? undefined : { block: true, blockReason: reason };
        } catch (error) {
          return { block: true, blockReason: `Not done: no gate answered (${error.message}).` };
        }
      },
      { priority: 1000 },
    );
  },
};
