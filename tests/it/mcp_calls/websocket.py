"""A server of the package `mcp` behind a WebSocket; prints its port when it listens."""

import asyncio
import socket

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.websocket import websocket_server
from mcp.types import TextContent, Tool

server = Server("socket")


@server.list_tools()
async def tools():
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return [Tool(name="say", description="Says it", inputSchema=schema)]


@server.call_tool()
async def call(name, arguments):
    return [TextContent(type="text", text=f"{name}: {arguments['text']}")]


async def application(scope, receive, send):
    if scope["type"] == "websocket":
        async with websocket_server(scope, receive, send) as (read, write):
            await server.run(read, write, server.create_initialization_options())


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
# The test connects as soon as it reads the port.
listener.listen()
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(application, log_level="error", lifespan="off")
asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
