"""Drives `piton mcp` with clients of others and compares what comes back.

    python3 mcp-session.py PITON --inspector PROGRAM --python PYTHON SCRIPT --typescript SCRIPT

Every client leads the same session in a repository of its own: it finds a tool and a directive, reads them, runs the
tool, begins the directive, does the step that waits for it, lets a person decide, goes on to the end, and makes a checkpoint
of edits of its own under a message of its model. Then git and
`piton verify` are asked. The first thing that is not as expected ends the program with the client's name.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOOL = """\
tool_id: add_note
tool_type: script
version: "1.0.0"
category: text
description: Adds a line to the notes on a topic
executor: bash_runtime
mutates_state: true
writes: ["notes/**"]
config:
  entrypoint: add.sh
parameters:
  - {name: topic, type: string, required: true, description: The name of the file}
  - {name: text, type: string, required: true, description: The line}
"""
SCRIPT = """\
#!/usr/bin/env bash
set -eu
mkdir -p notes
printf '%s\\n' "$PITON_PARAM_TEXT" >> "notes/$PITON_PARAM_TOPIC.md"
printf '{"file": "notes/%s.md"}\\n' "$PITON_PARAM_TOPIC"
"""
DIRECTIVE = """\
# Release notes

```xml
<directive name="release_notes" version="1.0.0">
<metadata>
<description>Writes the notes of a release, which a person approves</description>
<category>docs</category>
<git_checkpoint mode="auto"/>
<permissions>
<execute resource="tool" id="add_note"/>
<write resource="filesystem" path="notes/**"/>
</permissions>
</metadata>
<inputs><input name="version" type="string" required="true">The version</input></inputs>
<process>
<step name="write">
  <action>Write what is new in {input:version} into notes/release.md.</action>
  <verification><check>notes/release.md names {input:version}</check></verification>
</step>
<step name="approve"><checkpoint type="human-verify">Are the notes of {input:version} right?</checkpoint></step>
<step name="log"><execute item_type="tool" item_id="add_note">
  <param name="topic" value="log"/><param name="text" value="released {input:version}"/>
</execute></step>
</process>
<outputs><success>version: {input:version}</success></outputs>
</directive>
```
"""
TOOLS = ["search", "load", "execute", "help"]


class Unexpected(Exception):
    """Something is not as it has to be."""


def expect(found, wanted, what):
    if found != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, found {found!r}")


def command(words, folder):
    ran = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        raise Unexpected(f"`{' '.join(map(str, words))}` exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def make_project(folder):
    for path, text in {
        ".ai/tools/text/add_note/tool.yaml": TOOL,
        ".ai/tools/text/add_note/add.sh": SCRIPT,
        ".ai/directives/release_notes.md": DIRECTIVE,
        "README.md": "read me\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    command(["git", "init", "--quiet", "--initial-branch=main"], folder)
    command(["git", "config", "user.name", "Peer"], folder)
    command(["git", "config", "user.email", "peer@example.com"], folder)
    command(["git", "add", "--all"], folder)
    command(["git", "commit", "--quiet", "--message=start"], folder)


class Driver:
    """A client that stays: one server for the whole session."""

    can_ask = True

    def __init__(self, words, folder):
        self.child = subprocess.Popen(
            [str(word) for word in words], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.hello = self.read()

    def read(self):
        line = self.child.stdout.readline()
        if not line:
            raise Unexpected(f"the client ended with {self.child.wait()}")
        said = json.loads(line)
        if "failure" in said:
            raise Unexpected(said["failure"])
        return said

    def call(self, tool, arguments, answers=()):
        self.child.stdin.write(json.dumps({"tool": tool, "arguments": arguments, "answers": list(answers)}) + "\n")
        self.child.stdin.flush()
        said = self.read()
        return said["result"], said["asked"]

    def close(self):
        self.child.stdin.close()
        expect(self.child.wait(timeout=60), 0, "how the client ended")


class Inspector:
    """MCP Inspector's command line: each call is a client and a server of its own."""

    can_ask = False

    def __init__(self, words, era, target, folder):
        self.words = [*words, "--cli", "--format", "json"]
        self.words += ["--protocol-era", "modern" if era == "stateless" else "legacy"]
        self.words += target
        self.folder = folder
        # `--strict` ends with an error if a schema cannot be understood by every model.
        listed = self.ask("tools/list", "--strict")
        self.hello = {"tools": [tool["name"] for tool in listed["tools"]]}

    def ask(self, method, *more):
        words = [*self.words, "--method", method, *more]
        ran = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=120)
        result = json.loads(ran.stdout)["result"] if ran.stdout else {}
        # A tool that reports an error ends it with an error too.
        if ran.returncode != 0 and not result.get("isError"):
            raise Unexpected(f"the Inspector exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return result

    def call(self, tool, arguments, answers=()):
        pairs = []
        for name, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value)
            pairs += ["--tool-arg", f"{name}={text}"]
        return self.ask("tools/call", "--tool-name", tool, *pairs), []

    def close(self):
        pass


def content(result, is_error=False):
    """What a call came to; the text says the same as the structured content."""
    expect(bool(result.get("isError")), is_error, f"whether this is an error: {result}")
    structured = result["structuredContent"]
    expect(json.loads(result["content"][0]["text"]), structured, "the text beside the structured content")
    return structured


def lead(client, folder, piton):
    """One whole session."""
    here = {"project_path": str(folder)}
    expect(client.hello["tools"], TOOLS, "the tools")

    found = content(client.call("search", {"item_type": "tool", "query": "add a note", **here})[0])
    expect(found["results"][0]["name"], "add_note", "what is found first")
    expect(found["results"][0]["source"], "project", "where it is from")
    found = content(client.call("search", {"item_type": "directive", "query": "release notes", **here})[0])
    expect(found["results"][0]["name"], "release_notes", "what is found first")

    loaded = content(client.call("load", {"item_type": "tool", "item_id": "add_note", **here})[0])
    expect(loaded["input_schema"]["required"], ["topic", "text"], "what the tool needs")
    loaded = content(client.call("load", {"item_type": "directive", "item_id": "release_notes", **here})[0])
    expect(loaded["content"], DIRECTIVE, "the text of the directive")

    note = {"topic": "roof", "text": 'mend it; "quoted" $(touch escaped)'}
    run = {"item_type": "tool", "action": "run", "item_id": "add_note", "parameters": note, **here}
    done = content(client.call("execute", run)[0])
    expect((done["tool_id"], done["status"]), ("add_note", "success"), "the run of the tool")
    expect(done["result"], {"file": "notes/roof.md"}, "the result of the tool")
    expect((folder / "notes/roof.md").read_text(), note["text"] + "\n", "what the tool wrote")

    wrong = content(client.call("execute", {**run, "parameters": {"topic": "roof"}})[0], is_error=True)
    expect((wrong["status"], "text" in wrong["message"]), ("error", True), "a parameter that is missing")
    missing = content(client.call("load", {"item_type": "tool", "item_id": "add_nothing", **here})[0], is_error=True)
    expect(bool(missing["suggestion"]), True, "a suggestion for an item that is not there")
    outside = content(client.call("search", {"item_type": "tool", "query": "x", "project_path": "/"})[0], is_error=True)
    expect(bool(outside["message"]), True, "a folder that is not served")

    begin = {"item_type": "directive", "item_id": "release_notes", "parameters": {"version": "1.2"}, **here}
    waiting = content(client.call("execute", begin)[0])
    expect((waiting["status"], waiting["needs"], waiting["step"]), ("waiting", "agent", "write"), "the first step")
    expect(waiting["instruction"], "Write what is new in 1.2 into notes/release.md.", "the instruction")
    expect(waiting["checks"], ["notes/release.md names 1.2"], "the checks")
    (folder / "notes/release.md").write_text("1.2: it is faster\n")
    onward = waiting["next"]
    expect(onward["arguments"]["parameters"], {"run_id": waiting["run_id"]}, "the next call")

    yes = {"action": "accept", "content": {"decision": "approve", "comment": "well done"}}
    result, asked = client.call(onward["tool"], onward["arguments"], [yes])
    if client.can_ask:
        expect((len(asked), "Are the notes of 1.2 right?" in asked[0]), (1, True), f"the question: {asked}")
    else:
        # Nobody can be asked: the run is still waiting until a person says so in a terminal.
        waiting = content(result)
        expect((waiting["status"], waiting["needs"], waiting["step"]), ("waiting", "person", "approve"), "the gate")
        agent = client.call("execute", {**onward["arguments"], "parameters": {"run_id": waiting["run_id"], "result": "yes"}})
        expect(content(agent[0], is_error=True)["code"], "PERSON_NEEDED", "an agent that answers for a person")
        command([piton, "approve", waiting["run_id"], "--yes", "--answer", "well done"], folder)
        state = client.call("execute", {**onward["arguments"], "action": "status"})
        expect(content(state[0])["status"], "success", "the run that a person brought to its end")
        return
    done = content(result)
    expect((done["status"], done["outputs"]), ("success", {"version": "1.2"}), "the end of the run")

    # What the agent edits by itself becomes a commit, and the model behind the client writes its message.
    (folder / "README.md").write_text("read me first\n")
    keep = {"item_type": "directive", "item_id": "git_checkpoint", "parameters": {"operation": "edit"}, **here}
    kept = content(client.call("execute", keep)[0])
    expect((kept["status"], kept["files_changed"]), ("success", 2), "the checkpoint of the agent's edits")
    expect(kept["commit_message"].splitlines()[0], "docs: written by the model", "the message of the model")


def compare(folder, piton, can_ask):
    """What git and piton say afterwards."""
    expect((folder / "notes/log.md").read_text(), "released 1.2\n", "what the last step wrote")
    expect(command(["git", "status", "--porcelain"], folder), "" if can_ask else "?? notes/roof.md\n", "what is not committed")
    log = command(["git", "log", "--reverse", "--format=%s|%(trailers:key=Piton-Step,valueonly,separator=%x20)"], folder)
    steps = [re.sub(r"^\d+ ", "", line.split("|")[1]) for line in log.splitlines()]
    expect([step != "" for step in steps], [False, True, True, True][: 4 if can_ask else 3], f"which commits are of steps:\n{log}")
    command([piton, "verify", "--all"], folder)
    command(["git", "fsck", "--strict"], folder)


def serve(piton, folder):
    """A server over HTTP; gives its process, address and token."""
    token = "peer-" + os.urandom(16).hex()
    child = subprocess.Popen(
        [piton, "mcp", "--http", "127.0.0.1:0"],
        cwd=folder, env={**os.environ, "PITON_MCP_TOKEN": token}, stderr=subprocess.PIPE, text=True,
    )
    line = child.stderr.readline()
    address = re.search(r"http://\S+/mcp", line)
    if not address:
        raise Unexpected(f"the server does not say where it listens: {line}")
    return child, address[0], token


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("piton")
    parser.add_argument("--inspector", required=True)
    parser.add_argument("--python", nargs=2, required=True)
    parser.add_argument("--typescript", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    piton = options.piton
    drivers = {"TypeScript SDK": ["node", options.typescript], "Python SDK": options.python}
    versions = {"sessions": "2025-11-25", "stateless": "2026-07-28", "auto": "2026-07-28"}
    # The one that takes longest begins.
    cases = [("Inspector", era, "stdio") for era in ("sessions", "stateless")]
    cases += [(name, era, way) for name in drivers for era in versions for way in ("stdio", "http")]
    # What `auto` means is decided before a transport matters.
    cases = [case for case in cases if case[1:] != ("auto", "http")]
    base = pathlib.Path(tempfile.mkdtemp(prefix="piton-peers-")).resolve()
    # Nothing of the machine's settings, and nothing left in them.
    (base / "home").mkdir()
    os.environ.update(HOME=str(base / "home"), GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    os.environ.pop("PITON_MCP_TOKEN", None)

    def run(number, case):
        name, era, way = case
        start = time.monotonic()
        folder = base / str(number)
        make_project(folder)
        server = client = None
        try:
            target = [piton, "mcp"]
            if way == "http":
                server, *target = serve(piton, folder)
            if name == "Inspector":
                client = Inspector([options.inspector], era, target, folder)
            else:
                client = Driver([*drivers[name], era, way, *target], folder)
                expect(client.hello["version"], versions[era], "the version of the protocol")
                # A client that is told the version beforehand need not ask who the server is.
                expect(client.hello["server"] or "piton", "piton", "the name of the server")
            lead(client, folder, piton)
            client.close()
            if server:
                server.terminate()
                expect(server.wait(timeout=60), 0, "how the server ended")
            compare(folder, piton, client.can_ask)
        finally:
            for child in (server, getattr(client, "child", None)):
                if child and child.poll() is None:
                    child.kill()
        return time.monotonic() - start

    failed = False
    try:
        # They have nothing in common, and most of the time goes into starting programs.
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            chosen = [case for case in cases if options.only in " ".join(case)]
            for case, ran in [(case, pool.submit(run, number, case)) for number, case in enumerate(chosen)]:
                label = f"{case[0]} ({case[1]}, {case[2]})"
                try:
                    print(f"    {label}: {ran.result():.1f}s", flush=True)
                except Exception as err:
                    failed = True
                    print(f"error: {label}: {type(err).__name__}: {err}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
