#!/usr/bin/env node
// Runs the program of the package for this system.
"use strict";

const { spawn } = require("node:child_process");

const platform = `@dispensary-go/cli-${process.platform}-${process.arch}`;
const program = find();
if (program === undefined) {
  console.error(`dispensary: the package ${platform} is not installed: install optional dependencies, on a supported system`);
  process.exit(2);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
  console.error(`dispensary: ${err.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

// A terminal also sends Ctrl-C to the program, and the program ignores the second signal.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}

function find() {
  try {
    return require.resolve(`${platform}/bin/dispensary${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    return undefined;
  }
}
