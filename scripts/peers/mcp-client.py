"""A client made with the SDK for Python: lines with calls in, lines with results out.

    python mcp-client.py ERA stdio COMMAND [ARGUMENT...]
    python mcp-client.py ERA http URL TOKEN

Speaks with `mcp-session.py` as `mcp-client.mjs` does.
"""

import asyncio
import json
import os
import sys
import traceback

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageResult, ElicitResult, TextContent

MODES = {"sessions": "legacy", "stateless": "2026-07-28", "auto": "auto"}
answers, asked = [], []


async def person(_context, params):
    asked.append(params.message)
    answer = answers.pop(0) if answers else {"action": "cancel"}
    return ElicitResult(action=answer["action"], content=answer.get("content"))


async def model(_context, _params):
    # It always writes the same.
    return CreateMessageResult(
        role="assistant", model="peer", content=TextContent(type="text", text="docs: written by the model")
    )


def say(value):
    print(json.dumps(value), flush=True)


def server(way, rest):
    if way == "stdio":
        return StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ), cwd=os.getcwd())
    headers = {"Authorization": f"Bearer {rest[1]}"}
    return streamable_http_client(rest[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def main(era, way, *rest):
    async with Client(server(way, rest), mode=MODES[era], elicitation_callback=person, sampling_callback=model) as client:
        tools = await client.list_tools()
        info = client.server_info
        say({"version": client.protocol_version, "server": info and info.name, "tools": [tool.name for tool in tools.tools]})
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            answers[:] = call.get("answers", [])
            asked.clear()
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
                say({"result": result.model_dump(by_alias=True, mode="json", exclude_none=True), "asked": asked})
            except Exception:
                say({"failure": traceback.format_exc()})


try:
    asyncio.run(main(*sys.argv[1:]))
except BaseException:
    say({"failure": traceback.format_exc()})
    raise
